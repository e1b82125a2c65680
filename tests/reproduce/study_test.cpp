#include "experiments/reproduce/study.h"

#include <cmath>
#include <set>

#include "sim/spec/error.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

using reproduce::chosen;
using reproduce::Group;
using reproduce::groups_of;

train::TrainConfig proxy(bool quick) {
  train::TrainConfig config = train::load({}, "");
  reproduce::set_proxy(config, quick);
  return config;
}

TEST_CASE("every exhibit has groups, and no group of the whole study comes twice") {
  const train::TrainConfig config = proxy(false);
  for (const auto& exhibit : reproduce::exhibits()) {
    INFO(std::string(exhibit.name));
    CHECK_FALSE(groups_of({&exhibit}, config, false).empty());
  }
  std::set<std::string> names;
  for (const Group& group : groups_of(chosen({}, false), config, false)) {
    INFO(group.name);
    CHECK(names.insert(group.name).second);
  }
}

TEST_CASE("quick runs a part: figures 1, 4, 5, 7, 9, 11, and the runs of R1 and R3") {
  std::set<std::string_view> names;
  for (const auto* exhibit : chosen({}, true)) names.insert(exhibit->name);
  for (const char* needed : {"1", "4", "5", "7", "9", "11", "3", "table5"}) CHECK(names.contains(needed));
  CHECK_FALSE(names.contains("10"));
  CHECK(groups_of(chosen({}, true), proxy(true), true).size() <
        groups_of(chosen({}, false), proxy(false), false).size());
}

TEST_CASE("groups differ from the shared setting by what they are named after") {
  const train::TrainConfig config = proxy(false);
  const auto find = [groups = groups_of(chosen({}, false), config, false)](const std::string& name) {
    for (const Group& group : groups)
      if (group.name == name) return group;
    FAIL(name);
    return Group{};
  };
  CHECK(find("pre").train.lr == doctest::Approx(3e-3));
  CHECK(find("pre, rate x 3").train.lr == doctest::Approx(9e-3));
  CHECK(find("pre, weight decay 0.33").train.weight_decay == doctest::Approx(0.33));
  CHECK(find("peri, variance 10/d").spec.init.std == doctest::Approx(std::sqrt(10.0 / 96.0)));
  CHECK(find("peri, LayerNorm").spec.model.norm == NormKind::layer);
  CHECK(find("peri, embedding norm").spec.model.embedding_norm);
  CHECK(find("peri, output gains frozen").train.frozen == std::vector<std::string>{"norm_b"});
  CHECK(find("b-only, QK-norm (OLMo 2)").spec.model.qk_norm == QkNorm::full);
  CHECK(find("post, SGD, rate 0.3").train.optimizer == OptimizerKind::sgd);
  CHECK(find("post, no warm-up, rate x 1").train.warmup == 0.0);
  CHECK(find("peri, warm-up x 3, rate x 1").train.warmup == doctest::Approx(3.0 * config.train.warmup));
  CHECK(find("peri, warm-up x 3, rate x 1").train.lr == doctest::Approx(config.train.lr));
  CHECK(find("pre, Xavier").spec.init.scheme == InitScheme::xavier);
  const Group half = find("pre, half the length, rate x 1");
  CHECK(half.spec.input.tokens * half.train.batch == config.base.input.tokens * config.train.batch);
}

TEST_CASE("a run holds out the share of its corpus that train.validation says, a tenth if it says nothing") {
  const TemporaryFolder folder;
  train::TrainConfig config = proxy(true);
  config.train.corpus = folder.write("text", std::string(1000, 'a'));
  CHECK(train::corpus_of(config).validation().size() == 100);
  config.train.validation = 0.27;
  CHECK(train::corpus_of(config).validation().size() == 270);
  CHECK(train::corpus_of(config).training().size() == 730);
}

TEST_CASE("a figure that there is not is named, with the nearest") {
  CHECK_THROWS_WITH_AS(static_cast<void>(chosen({"table6"}, false)),
                       doctest::Contains("--figure table6: expected one of 1, 3"), ConfigError);
}

}  // namespace
}  // namespace periscope::testing
