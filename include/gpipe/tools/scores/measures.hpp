#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>

namespace gpipe {

/// Counts the rows of each label by predicted class: `count(label, predicted)`. The predicted class is the first one
/// with the largest logit.
///
///     const confusion_matrix found(training.predict(data), data.field<std::int32_t>("labels"));
///     std::cout << found.f1(3) << ' ' << found.macro_f1() << '\n';
class confusion_matrix {
 public:
  /// Counts the rows of `predict`, each with its label; a sample of tensor<T, 128, C> has 128 rows. Throws `error` if
  /// the numbers do not fit each other, or if a label is no class.
  template <detail::element T = float>
  confusion_matrix(const tensor_rows& logits, std::span<const std::int32_t> labels)
      : confusion_matrix(logits.all<T>(), labels) {}
  template <class T>
  GPIPE_COLD confusion_matrix(std::span<const T> logits, std::span<const std::int32_t> labels) {
    if (labels.empty() || logits.empty() || logits.size() % labels.size() != 0)
      detail::throw_error({"there are ", logits.size(), " logits and ", labels.size(), " labels"},
                          {"give a label for each row of logits"});
    const std::size_t classes = logits.size() / labels.size();
    classes_ = static_cast<int>(classes);
    counts_.assign(classes * classes, 0);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::int32_t label = labels[i];
      if (label < 0 || label >= classes_)
        detail::throw_error({"label ", i, " is ", label}, {"choose labels in 0 ... ", classes_ - 1});
      const auto row = logits.subspan(i * classes, classes);
      std::size_t best = 0;
      for (std::size_t c = 1; c < classes; ++c)
        if (static_cast<compute_type<T>>(row[c]) > static_cast<compute_type<T>>(row[best])) best = c;
      ++counts_[detail::index(label) * classes + best];
    }
  }

  int classes() const { return classes_; }
  std::int64_t count(int label, int predicted) const {
    return counts_[detail::index(label) * detail::index(classes_) + detail::index(predicted)];
  }
  /// The number of rows with this label, and the number for which this class was predicted.
  std::int64_t labelled(int c) const { return sum(c, true); }
  std::int64_t predicted(int c) const { return sum(c, false); }

  double accuracy() const {
    std::int64_t right = 0, total = 0;
    for (int c = 0; c < classes_; ++c) right += count(c, c), total += labelled(c);
    return share(right, total);
  }
  /// The share of right rows among the rows predicted as the class, their share among the rows labelled as it, and the
  /// harmonic mean of both. A share of no rows is 0.
  double precision(int c) const { return share(count(c, c), predicted(c)); }
  double recall(int c) const { return share(count(c, c), labelled(c)); }
  double f1(int c) const { return share(2 * count(c, c), predicted(c) + labelled(c)); }
  /// The mean of `f1` over the classes that are a label or a prediction: scikit-learn's f1_score(average="macro").
  double macro_f1() const {
    double total = 0;
    int found = 0;
    for (int c = 0; c < classes_; ++c)
      if (predicted(c) + labelled(c) > 0) total += f1(c), ++found;
    return found > 0 ? total / found : 0;
  }

 private:
  static double share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  }
  std::int64_t sum(int c, bool by_label) const {
    std::int64_t total = 0;
    for (int other_class = 0; other_class < classes_; ++other_class)
      total += by_label ? count(c, other_class) : count(other_class, c);
    return total;
  }

  int classes_ = 0;
  std::vector<std::int64_t> counts_;  // [label][predicted]
};

/// The root of the mean squared distance between predictions and targets, whose numbers must be equal:
///
///     root_mean_squared_error(training.predict(data), data.field<float>("targets"))
template <class Predictions, class Targets>
GPIPE_COLD double root_mean_squared_error(const Predictions& predictions, const Targets& targets) {
  const std::size_t count = std::size(predictions);
  if (count == 0 || count != std::size(targets))
    detail::throw_error({"there are ", count, " predictions and ", std::size(targets), " targets"},
                        {"give a target for each prediction"});
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double off = static_cast<double>(predictions[i]) - static_cast<double>(targets[i]);
    total += off * off;
  }
  return std::sqrt(total / static_cast<double>(count));
}
template <class Targets>
GPIPE_COLD double root_mean_squared_error(const tensor_rows& predictions, const Targets& targets) {
  using number = std::remove_cvref_t<decltype(targets[0])>;  // a model in double has targets of double
  return root_mean_squared_error(predictions.all<number>(), targets);
}

/// The weight of each row by the class of its label, for the field "weights" of a cross-entropy. The mean loss then
/// equals PyTorch's CrossEntropyLoss(weight): each row counts by the weight of its class, in the sum of weights, too.
///
///     data.with("weights", 1, weights_of_classes(labels, {1, 5, 2}));
GPIPE_COLD inline std::vector<float> weights_of_classes(std::span<const std::int32_t> labels,
                                                        std::span<const float> class_weights) {
  std::vector<float> weights;
  weights.reserve(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || detail::index(labels[i]) >= class_weights.size())
      detail::throw_error({"label ", i, " is ", labels[i], ", and ", class_weights.size(), " classes have a weight"},
                          {"give a weight for each class, and labels from 0 on"});
    weights.push_back(class_weights[detail::index(labels[i])]);
  }
  return weights;
}
GPIPE_COLD inline std::vector<float> weights_of_classes(std::span<const std::int32_t> labels,
                                                        const std::vector<float>& class_weights) {
  return weights_of_classes(labels, std::span<const float>(class_weights));
}
/// Weights that make all classes count equally: rows / (classes x rows of the class), scikit-learn's "balanced". A
/// class without a row has weight 0.
GPIPE_COLD inline std::vector<float> balanced_class_weights(std::span<const std::int32_t> labels, int classes) {
  if (classes < 1) detail::throw_error({"classes is ", classes}, {"choose at least 1"});
  std::vector<float> weights(detail::index(classes));
  std::vector<std::int64_t> rows(detail::index(classes));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes)
      detail::throw_error({"label ", i, " is ", labels[i]}, {"choose labels in 0 ... ", classes - 1});
    ++rows[detail::index(labels[i])];
  }
  for (std::size_t c = 0; c < rows.size(); ++c)
    if (rows[c] > 0)
      weights[c] =
          static_cast<float>(static_cast<double>(labels.size()) / (double{1} * classes * static_cast<double>(rows[c])));
  return weights;
}

}  // namespace gpipe
