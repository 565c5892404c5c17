#pragma once

// Texts as pieces by SentencePiece: a library of its own, which who includes this links beside.
#include <gpipe/train/data/text/sentencepiece.hpp>
