#pragma once

#include <string>

#include "experiments/engine/judge/findings.h"

/// The words of tables for people on findings.
namespace periscope::judge {

/// "-0.492 ± 0.013", the error with two digits; "-" for what is not there.
std::string plus_minus(const Estimate& estimate);
/// x in a format such as "{:.3f}"; "-" for what is no number.
std::string shown(double x, const char* format);
/// "agrees", or "disagrees (5.1 / 3.9)" with the excess and its limit, or "inconclusive (could be off by 0.3; limit
/// 0.25)" with the reason.
std::string verdict_words(const Finding& finding);
inline bool disagrees(const Finding& finding) { return finding.verdict == Verdict::disagrees; }

}  // namespace periscope::judge
