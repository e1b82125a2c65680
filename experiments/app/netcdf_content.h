#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

namespace periscope::app {

/// Reads the bytes of a NetCDF-4 file with the NetCDF library and hands its content to `emit`, piece by piece:
/// {"dimensions": [[name, length] …], "unlimited": [name …], "attributes": [[name, value] …]}, then for every variable
/// {"name", "dimensions": [name …], "units", "long_name", "numbers": the bytes of doubles, or "integers", of whole
/// numbers of eight bytes, or "flags", of bytes, or "words": [text …]}.
/// Throws InputError, which names what is at fault but not the file, for all that write_netcdf does not write: groups,
/// types of a user, an attribute that is neither text nor one number, a coordinate that is not on its own dimension
/// alone, text that is not text, and more values than the file has room for. The library itself may crash on
/// damaged bytes.
void read_netcdf_content(std::span<const std::byte> bytes, const std::function<void(const nlohmann::json&)>& emit);

}  // namespace periscope::app
