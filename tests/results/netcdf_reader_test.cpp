#include "experiments/app/netcdf_reader.h"

#include <fmt/format.h>
#include <netcdf.h>
#include <sys/stat.h>

#include <chrono>
#include <vector>

#include "experiments/app/tools/export_csv.h"
#include "sim/base/error.h"
#include "tests/results/netcdf_files.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope {
namespace {

using testing::make_netcdf;
using testing::small_result;
using testing::TemporaryFolder;

/// The message with which a file is refused, which must come within seconds; "" if it is not refused.
std::string refusal(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  std::string message;
  try {
    (void)app::csv_of(path);
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  return message;
}

int dimension(int file, const char* name, std::size_t length) {
  int id = 0;
  REQUIRE(nc_def_dim(file, name, length, &id) == NC_NOERR);
  return id;
}

int variable(int file, const char* name, nc_type type, const std::vector<int>& dimensions) {
  int id = 0;
  REQUIRE(nc_def_var(file, name, type, static_cast<int>(dimensions.size()), dimensions.data(), &id) == NC_NOERR);
  return id;
}

struct Hostile {
  std::string what;
  void (*make)(int file);
  std::vector<std::string> named;  ///< what the message must say
};

const std::vector<Hostile> hostile_files{
    {"an attribute of three numbers",
     [](int file) {
       const double numbers[]{1, 2, 3};
       nc_put_att_double(file, NC_GLOBAL, "three", NC_DOUBLE, 3, numbers);
     },
     {"attribute \"three\"", "3 numbers"}},
    {"an attribute of 4096 whole numbers",
     [](int file) {
       const std::vector<long long> numbers(4096, -1);
       nc_put_att_longlong(file, NC_GLOBAL, "many", NC_INT64, numbers.size(), numbers.data());
     },
     {"attribute \"many\"", "4096 numbers"}},
    {"an attribute without a number",
     [](int file) { nc_put_att_double(file, NC_GLOBAL, "none", NC_DOUBLE, 0, nullptr); },
     {"attribute \"none\"", "0 numbers"}},
    {"an attribute of strings",
     [](int file) {
       const char* words[]{"a", "b"};
       nc_put_att_string(file, NC_GLOBAL, "words", 2, words);
     },
     {"attribute \"words\"", "type string"}},
    {"units that are numbers",
     [](int file) {
       const std::vector<double> numbers(512, 1.0);
       nc_put_att_double(file, variable(file, "x", NC_DOUBLE, {}), "units", NC_DOUBLE, numbers.size(), numbers.data());
     },
     {"variable \"x\", attribute units", "type double"}},
    {"a long_name that is a string",
     [](int file) {
       const char* words[]{"a"};
       nc_put_att_string(file, variable(file, "x", NC_DOUBLE, {}), "long_name", 1, words);
     },
     {"variable \"x\", attribute long_name", "type string"}},
    {"a coordinate on another dimension, which is shorter",
     [](int file) {
       const int shorter = dimension(file, "shorter", 1);
       variable(file, "y", NC_DOUBLE, {dimension(file, "x", 100)});
       variable(file, "x", NC_DOUBLE, {shorter});
     },
     {"variable \"x\"", "the name of a dimension", "100 values"}},
    {"a coordinate on two dimensions",
     [](int file) {
       const int x = dimension(file, "x", 3);
       variable(file, "x", NC_DOUBLE, {x, dimension(file, "y", 2)});
     },
     {"variable \"x\"", "the name of a dimension"}},
    {"a coordinate on no dimension",
     [](int file) {
       dimension(file, "x", 3);
       variable(file, "x", NC_DOUBLE, {});
     },
     {"variable \"x\"", "the name of a dimension"}},
    {"a dimension of 2^40",
     [](int file) { dimension(file, "long", std::size_t{1} << 40U); },
     {"dimension \"long\"", "1099511627776"}},
    {"a variable of 10^12 values that were never written",
     [](int file) {
       const int a = dimension(file, "a", 6000);
       const int b = dimension(file, "b", 6001);
       variable(file, "x", NC_DOUBLE, {a, b, a});
     },
     {"variable \"x\"", "larger than the file"}},
    {"a product of dimensions that overflows",
     [](int file) {
       const int a = dimension(file, "a", 5000);
       variable(file, "x", NC_DOUBLE, {a, a, a, a, a, a});
     },
     {"variable \"x\"", "than the file's"}},
    {"many zeros in little space",
     [](int file) {
       const int x = variable(file, "x", NC_DOUBLE, {dimension(file, "n", 40), dimension(file, "m", 5000)});
       nc_def_var_deflate(file, x, 0, 1, 9);
       const std::vector<double> zeros(200'000, 0.0);
       nc_enddef(file);
       nc_put_var_double(file, x, zeros.data());
     },
     {"variable \"x\"", "larger than the file", "without compression"}},
    {"zeros in little space, which would fit but for what was read before",
     [](int file) {
       const int n = dimension(file, "n", 20'000);
       const int whole = variable(file, "whole", NC_DOUBLE, {n});
       const int x = variable(file, "x", NC_DOUBLE, {n});
       nc_def_var_deflate(file, x, 0, 1, 9);
       nc_enddef(file);
       const std::vector<double> zeros(20'000, 0.0);
       nc_put_var_double(file, whole, zeros.data());
       nc_put_var_double(file, x, zeros.data());
     },
     {"variable \"x\"", "with it the content is larger than the file"}},
    {"a group",
     [](int file) {
       int group = 0;
       nc_def_grp(file, "g", &group);
     },
     {"groups", "expected none"}},
    {"a type of a user",
     [](int file) {
       nc_type type = 0;
       nc_def_opaque(file, 100, "blob", &type);
       variable(file, "x", type, {});
     },
     {"types", "expected none"}},
    {"a variable of characters",
     [](int file) { variable(file, "x", NC_CHAR, {dimension(file, "n", 3)}); },
     {"variable \"x\"", "type char"}},
    {"a hundred dimensions",
     [](int file) {
       for (int i = 0; i < 100; ++i) dimension(file, fmt::format("d{}", i).c_str(), 1);
     },
     {"dimensions", "100 found"}},
};

}  // namespace

TEST_CASE("attributes are read with their types, and a result becomes CSV") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.nc");
  app::write_netcdf(path, small_result());
  const dataset::Dataset read = app::read_netcdf(path);
  CHECK((read.facts == small_result().facts));
  const std::string csv = app::csv_of(path);
  CHECK(csv.starts_with("variable,placement,depth,step,value\n"));
  CHECK(csv.find("variance,\"peri, \"\"quoted\"\"\",2,,0.3333333333333333\n") != std::string::npos);
  CHECK(csv.find("loss,,,3,1\n") != std::string::npos);
  CHECK(csv.find("verdict,pre,,,agrees\n") != std::string::npos);
  CHECK(csv.find("seconds,,,,0.5\n") != std::string::npos);
}

TEST_CASE("CSV quotes commas, quotes and ends of lines, RFC 4180") {
  const TemporaryFolder folder;
  dataset::Dataset data{.dimensions = {{"n", 5, false}}, .columns = {}, .facts = {}};
  data.columns = {{"word", {"n"}, std::vector<std::string>{"plain", "a,b", "a\"b", "a\nb", "a\rb"}, "", "words"}};
  app::write_netcdf(folder.path("a.nc"), data);
  CHECK(app::csv_of(folder.path("a.nc")) ==
        "variable,n,value\nword,0,plain\nword,1,\"a,b\"\nword,2,\"a\"\"b\"\nword,3,\"a\nb\"\nword,4,\"a\rb\"\n");
}

TEST_CASE("hostile NetCDF files are refused with one line that names the file and what is at fault") {
  const TemporaryFolder folder;
  for (const Hostile& hostile : hostile_files) {
    CAPTURE(hostile.what);
    const std::string path = folder.path("hostile.nc");
    make_netcdf(path, hostile.make);
    const std::string message = refusal(path);
    CHECK_MESSAGE(message.starts_with(path + ": "), message);
    CHECK_MESSAGE(message.find('\n') == std::string::npos, message);
    for (const std::string& name : hostile.named) CHECK_MESSAGE(message.find(name) != std::string::npos, message);
  }
}

TEST_CASE("what is no NetCDF-4 file is refused, and nothing is waited for") {
  const TemporaryFolder folder;
  app::write_netcdf(folder.path("a.nc"), small_result());
  const std::string whole = testing::bytes_of_file(folder.path("a.nc"));
  REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  int classic = 0;
  REQUIRE(nc_create(folder.path("classic.nc").c_str(), NC_CLOBBER, &classic) == NC_NOERR);
  REQUIRE(nc_close(classic) == NC_NOERR);
  for (const std::string& path :
       {folder.write("empty", ""), folder.write("text", "variable,value\n"), folder.write("half", whole.substr(0, 700)),
        folder.write("cut", whole.substr(0, whole.size() - 1)), folder.path("classic.nc"), folder.path("pipe"),
        folder.path(), folder.path("missing"), std::string("/dev/zero"), std::string("http://localhost/a.nc"),
        folder.path("a.nc") + "#mode=bytes"}) {
    CAPTURE(path);
    CHECK(refusal(path).starts_with(path + ": "));
  }
}

TEST_CASE("a CSV that would be the square of its file is not made") {
  const TemporaryFolder folder;
  dataset::Dataset data{.dimensions = {{"word", 2, false}, {"n", 5000, false}}, .columns = {}, .facts = {}};
  data.columns = {{"word", {"word"}, std::vector<std::string>(2, std::string(60'000, 'w')), "", "long"},
                  {"x", {"word", "n"}, std::vector<double>(10'000, 0.0), "1", "x"}};
  app::write_netcdf(folder.path("a.nc"), data);
  const std::string message = refusal(folder.path("a.nc"));
  CHECK_MESSAGE(message.find("variable \"x\"") != std::string::npos, message);
  CHECK_MESSAGE(message.find("CSV would have 6.0e+08 bytes") != std::string::npos, message);
}

}  // namespace periscope
