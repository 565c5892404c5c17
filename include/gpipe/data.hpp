#pragma once

// Data: datasets in memory and in files, generated data, and readers of tables.
#include <gpipe/train/data/column_norm.hpp>
#include <gpipe/train/data/csv.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/data/generated_data.hpp>
#include <gpipe/train/data/idx.hpp>
#include <gpipe/train/data/mapped_data.hpp>
#include <gpipe/train/data/mixture.hpp>
#include <gpipe/train/measures.hpp>
