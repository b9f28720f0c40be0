/* gemm_cache.cpp - the file that keeps the ways to multiply; see gemm.hpp.
 *
 * One file for a kind of card and a version of cuBLAS, in $XDG_CACHE_HOME/kiln, ~/.cache/kiln, or
 * /var/cache/kiln for root:
 *
 *     products-NVIDIA_H200-130100.txt
 *
 * A line each, of a shape (M N K and three digits: e4m3, bias, adds), the way as cuBLASLt's 64
 * bytes in hexadecimal, a checksum of all that, and a note for the reader:
 *
 *     4224 3840 10240 000 3900...00 9f0c2a41 kernel 66, tile 128x256, ...
 *
 * cuBLASLt allows its bytes to be stored for the same version.  A line whose checksum is wrong does
 * not count; it goes with the next write, as does a file that is no such file.  Writers put a new
 * file in the place of the old one: two at a time may lose a line, which is then found again.
 */
#include "pipeline/torch/cuda/gemm.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <ATen/cuda/CUDAContext.h>
#include <unistd.h>

namespace kiln
{

namespace fs = std::filesystem;
constexpr size_t lines_most = 4096;
using lines = std::map<gemm_shape, gemm_choice>;

/* Empty where there is no place for it. */
static fs::path file_of_device()
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    fs::path dir;
    if (xdg && *xdg == '/')
        dir = fs::path(xdg) / "kiln";
    else if (geteuid() == 0)
        dir = "/var/cache/kiln";
    else if (home && *home == '/')
        dir = fs::path(home) / ".cache" / "kiln";
    else
        return {};
    std::string device = at::cuda::getCurrentDeviceProperties()->name;
    for (char &c : device)
        c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return dir / ("products-" + device + "-" + std::to_string(cublasLtGetVersion()) + ".txt");
}

static uint32_t checksum(const std::string &text)
{
    uint32_t sum = 2166136261u; /* FNV-1a */
    for (const char c : text)
        sum = (sum ^ static_cast<unsigned char>(c)) * 16777619u;
    return sum;
}

static std::string line_of(const gemm_shape &s, const gemm_choice &choice)
{
    char text[128];
    snprintf(text, sizeof text, "%" PRId64 " %" PRId64 " %" PRId64 " %d%d%d ", s.m, s.n, s.k,
             s.e4m3, s.bias, s.adds);
    std::string line = text;
    for (const uint64_t part : choice.way.algo.data)
        snprintf(text, sizeof text, "%016" PRIx64, part), line += text;
    snprintf(text, sizeof text, " %08" PRIx32 " ", checksum(line));
    return line + text + choice.note;
}

static bool read_line(const std::string &line, lines *ret)
{
    gemm_shape s{};
    gemm_choice choice;
    char flags[4] = "", hex[129] = "";
    uint32_t sum = 0;
    int before = 0, after = 0;
    if (sscanf(line.c_str(),
               "%" SCNd64 " %" SCNd64 " %" SCNd64 " %3[01] %128[0-9a-f]%n %" SCNx32 " %n", &s.m,
               &s.n, &s.k, flags, hex, &before, &sum, &after) != 6 ||
        strlen(flags) != 3 || strlen(hex) != 128 || after == 0 ||
        checksum(line.substr(0, static_cast<size_t>(before))) != sum)
        return false;
    s.e4m3 = flags[0] == '1', s.bias = flags[1] == '1', s.adds = flags[2] == '1';
    for (size_t i = 0; i < std::size(choice.way.algo.data); i++)
        choice.way.algo.data[i] = strtoull(std::string(hex + 16 * i, 16).c_str(), nullptr, 16);
    choice.note = line.substr(static_cast<size_t>(after));
    (*ret)[s] = choice;
    return true;
}

static lines read_file(const fs::path &file)
{
    lines all;
    std::ifstream in(file);
    std::string line;
    for (size_t i = 0; i < lines_most && std::getline(in, line); i++) {
        if (read_line(line, &all))
            continue;
        TORCH_WARN_ONCE("a damaged line of ", file.string(), " does not count");
    }
    return all;
}

std::optional<gemm_choice> gemm_recall(const gemm_shape &shape)
{
    const fs::path file = file_of_device();
    const lines all = file.empty() ? lines() : read_file(file);
    const auto found = all.find(shape);
    return found == all.end() ? std::nullopt : std::make_optional(found->second);
}

void gemm_keep(const gemm_shape &shape, const gemm_choice &choice)
{
    const fs::path file = file_of_device();
    if (file.empty())
        return;
    const fs::path fresh = file.string() + "." + std::to_string(getpid());
    std::error_code failed; /* what cannot be kept is searched for again in the next process */
    lines all = read_file(file);
    if (all.size() < lines_most)
        all[shape] = choice;
    fs::create_directories(file.parent_path(), failed);
    std::ofstream out(fresh);
    for (const auto &[each, its_choice] : all)
        out << line_of(each, its_choice) << '\n';
    out.close();
    if (out)
        fs::rename(fresh, file, failed);
    if (!out || failed)
        fs::remove(fresh, failed);
}

} // namespace kiln
