#include "experiments/studies/certify/certify.h"

namespace periscope::certify {
namespace {

/// The declarations, by the groups that `put_…` fill.
class Declarations {
 public:
  std::vector<ColumnSpec> take() {
    const std::string run = "{arithmetic}/{format}/";
    head();
    arithmetic("own_", "", "own_run/", "the runs that were measured and attacked");
    arithmetic("run_", "format", run, "the run that the verdict is for");
    bounds("", "", "exact/signals/[bound]/", "exact arithmetic (T17)");
    bounds("own_", "", "own_run/signals/[bound]/", "the arithmetic of what was measured (T24)");
    bounds("run_signal_", "format ", run + "signals/[bound]/", "the arithmetic of a run (T24)");
    exact_classes("", "exact/classes/{class}/", "");
    exact_classes("scaled_", "headroom/run/classes/{class}/", " of the scaled stack");
    run_classes("run_", "certified", run + "classes/{class}/", "");
    run_classes("scaled_run_", "scaled_run_certified", "headroom/run/" + run + "{class}/", " of the scaled stack");
    by_sublayer();
    verdicts(run);
    headroom();
    return std::move(all_);
  }

 private:
  void add(std::initializer_list<ColumnSpec> columns) { all_.insert(all_.end(), columns); }

  void head() {
    const std::string configured = "files have it in their configuration";
    add({{"model", "", "", "what the model is called", "model"},
         {"family", "", "", "of checkpoints; nothing for other weights", "family"},
         json_only("placement", "placement", "normalization placement (T1)", configured),
         json_only("layers", "layers", "L", configured),
         json_only("width", "width", "D", configured),
         {"input", "", "", "what may enter: tokens, or real vectors", "input"},
         {"input_maximum", "", "1", "largest entry of real vectors", "input_maximum"},
         json_only("excluded", "excluded", "inputs and runs that are not covered", "words for people"),
         {"weights_sha256", "weights", "", "SHA-256 of the file, or of the weights as drawn",
          "weights_sha256/{weights}"},
         {"arithmetic", "", "", "that verdicts are for", "arithmetic"},
         {"length", "", "1", "longest input in tokens that is certified", "length"},
         {"seconds", "", "s", "that the certificates took, with reading or drawing the weights", "seconds"},
         {"measured_tokens", "", "1", "tokens that were measured", "measured_tokens"}});
  }

  void arithmetic(const std::string& prefix, const std::string& on, const std::string& path, const std::string& of) {
    add({{prefix + "arithmetic", on, "", "arithmetic of " + of, path + "arithmetic"},
         {prefix + "format", on, "", "stored format of " + of, path + "format"},
         {prefix + "accumulated", on, "", "format of sums of " + of, path + "accumulated"},
         {prefix + "length", on, "1", "tokens of a sequence; 0: any number", path + "length"},
         {prefix + "weights_rounded", on, "1", "1: weights are no numbers of the format", path + "weights_rounded"}});
  }

  void bounds(const std::string& prefix, const std::string& leading, const std::string& path, const std::string& in) {
    const std::string on = leading + "signal place";
    const std::string place = "files have the dimensions signal and place";
    add({json_only(prefix + "bound_signal", path + "signal", "signal", place),
         json_only(prefix + "bound_sublayer", path + "sublayer", "sublayer", place),
         {prefix + "bound_feature", on, "1", "feature of the bound in " + in, path + "feature"},
         json_only(prefix + "bound_class", path + "class", "class of the signal", "follows from the signal"),
         {prefix + "bound", on, "1", "largest magnitude that any input can cause in " + in, path + "bound"}});
    if (!leading.empty()) return;
    add({{prefix + "measured", on, "1", "largest magnitude measured", path + "measured"},
         {prefix + "bound_ratio", on, "1", "bound over measured", path + "ratio"}});
  }

  void classes(const std::string& prefix, const std::string& on, const std::string& path, const std::string& of) {
    add({{prefix + "class_largest", on, "1", "largest bound of a class" + of, path + "bound"},
         {prefix + "class_signal", on, "", "its signal", path + "at/signal"},
         {prefix + "class_sublayer", on, "1", "its sublayer", path + "at/sublayer"},
         {prefix + "class_feature", on, "1", "its feature", path + "at/feature"}});
  }

  void exact_classes(const std::string& prefix, const std::string& path, const std::string& of) {
    classes(prefix, "class", path, of + " in exact arithmetic");
    add({{prefix + "class_fits", "class format", "1", "1: the format holds it", path + "formats/{format}/fits"},
         {prefix + "class_headroom", "class format", "1", "largest number of the format over it",
          path + "formats/{format}/headroom"}});
  }

  void run_classes(const std::string& prefix, const std::string& verdict, const std::string& path,
                   const std::string& of) {
    classes(prefix, "format class", path, of + " in the arithmetic of a run (T24)");
    add({{verdict, "format class", "1", "1: no input can overflow the format there; 0: not certified",
          path + "certified"},
         {prefix + "reason", "format class", "", "what stands against it", path + "reason"}});
  }

  void by_sublayer() {
    const std::string signals = "JSON has every signal's";
    add({{"class_bound", "class place", "1", "largest bound of a class of signals in exact arithmetic", "", signals},
         {"class_measured", "class place", "1", "largest magnitude measured in a class", "", signals},
         {"run_bound", "format class place", "1", "largest bound of a class in the arithmetic of a run (T24)", "",
          signals},
         {"stream_largest", "depth", "1", "largest bound of the stream x_out", "exact/stream/bound/[depth]"},
         {"stream_feature", "depth", "1", "its feature", "exact/stream/feature/[depth]"},
         {"stream_measured", "depth", "1", "largest magnitude measured in the stream", "exact/stream/measured/[depth]"},
         {"stream_bound", "depth feature", "1", "bound on every feature of the stream x_out", "",
          "a number per feature; JSON has the largest"}});
  }

  void verdicts(const std::string& run) {
    const std::string path = "verdicts/{format}/";
    add({json_only("verdict_arithmetic", path + "arithmetic", "that the verdict is for", "files: arithmetic"),
         {"format_largest", "format", "1", "largest finite number of the format", path + "largest"},
         {"stream_certified", "format", "1", "1: no input can overflow the residual stream", path + "stream"},
         {"everywhere_certified", "format", "1", "1: nor anything else", path + "everywhere"},
         {"stream_reason", "format", "", "what stands against the stream's certificate", path + "stream_reason"},
         {"everywhere_reason", "format", "", "what stands against the other", path + "everywhere_reason"}});
    for (const std::string scope : {"stream", "everywhere"}) {
      const std::string at = run + scope + "/";
      add({json_only(scope + "_holds", at + "certified", "the verdict", "files: " + scope + "_certified"),
           json_only(scope + "_why_not", at + "reason", "what stands against it", "files: " + scope + "_reason"),
           json_only(scope + "_first", at + "first", "the first place that may overflow", "files say it in words"),
           {scope + "_first_bound", "format", "1", "bound of the first place that may overflow", at + "bound"},
           {scope + "_first_limit", "format", "1", "what it may be", at + "limit"}});
    }
    add({{"attack_signal", "attack", "", "signal that was attacked", "attack/[attack]/signal"},
         {"attack_sublayer", "attack", "1", "its sublayer", "attack/[attack]/sublayer"},
         {"attack_feature", "attack", "1", "its feature", "attack/[attack]/feature"},
         {"attack_bound", "attack", "1", "its bound", "attack/[attack]/bound"},
         {"attack_reached", "attack", "1", "largest magnitude reached", "attack/[attack]/reached"},
         {"attack_ratio", "attack", "1", "reached over bound", "attack/[attack]/ratio"},
         json_only("exceeded", "exceeded", "a bound that a run passed: a bug of this program", "must not be"),
         json_only("overflowed", "overflowed", "where a run overflowed its own format, as its certificate allows",
                   "of use where a measured signal is infinite")});
  }

  void headroom() {
    const std::string h = "headroom/";
    const std::string run = h + "run/";
    const std::string words = "words for people";
    add({{"headroom_possible", "", "1", "1: the stream can be scaled with the function kept", h + "possible"},
         json_only("headroom_gains_alone", h + "gains_alone", "whether gains alone do it", words),
         json_only("headroom_multiplied", h + "multiplied", "what c multiplies", words),
         json_only("headroom_divided", h + "divided", "what c divides", words),
         {"headroom_stream_bound", "", "1", "largest bound of what grows with c", h + "stream_bound"},
         {"headroom_stream_measured", "", "1", "largest magnitude measured of it", h + "stream_measured"},
         {"headroom_margin", "", "1", "how many times over what was measured must fit", h + "margin"},
         {"headroom_c_certified", "format", "1", "largest c that is certified", h + "formats/{format}/c_certified"},
         {"headroom_c_measured", "format", "1", "largest c with which what was measured fits, margin times over",
          h + "formats/{format}/c_measured"},
         {"headroom_k_certified", "format", "1", "largest factor of branches before norms B",
          h + "formats/{format}/k_certified"},
         {"scaled_c", "", "1", "c of the stack that was scaled and run", run + "c"},
         {"scaled_k", "", "1", "k of it", run + "k"},
         {"scaled_tokens", "", "1", "tokens of that run", run + "tokens"},
         {"logit_difference", "", "1", "largest change of a logit over the largest logit", run + "logit_difference"},
         {"logit_difference_without_eps", "", "1", "the same at eps = 0", run + "logit_difference_without_eps"},
         {"logit_difference_gains_alone", "", "1", "the same if only gains and the embedding are scaled",
          run + "logit_difference_gains_alone"}});
  }

  std::vector<ColumnSpec> all_;
};

}  // namespace

const Schema& schema() {
  static const Schema schema("certify", 1,
                             {{"signal", "", "signal"},
                              {"class", "", "class of signals"},
                              {"place", "1", "sublayer; -1: before the first, 2L: after the last"},
                              {"depth", "1", "sublayers passed; 0 is the stack's input"},
                              {"feature"},
                              {"format", "", "number format"},
                              {"weights", "", "file of weights, or drawn"},
                              {"attack"}},
                             Declarations().take());
  return schema;
}

}  // namespace periscope::certify
