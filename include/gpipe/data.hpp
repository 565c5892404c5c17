#pragma once

// change: a data source
// Data: datasets in memory and in files, generated data, and readers of tables.
#include <gpipe/tools/data/column_norm.hpp>
#include <gpipe/tools/data/csv.hpp>
#include <gpipe/tools/data/generated_data.hpp>
#include <gpipe/tools/data/idx.hpp>
#include <gpipe/tools/data/mapped_data.hpp>
#include <gpipe/tools/data/mixture.hpp>
#include <gpipe/tools/scores/measures.hpp>
#include <gpipe/train/data/dataset.hpp>
