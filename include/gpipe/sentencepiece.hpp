#pragma once

// Pieces of texts by SentencePiece. A program that includes this links SentencePiece's libraries, too.
#include <gpipe/tools/text/sentencepiece.hpp>
