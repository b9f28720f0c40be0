/* products.cpp - see products.hpp. */
#include "pipeline/torch/cpu/products.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/native/CPUBlas.h>
#include <cpuinfo.h>
#include <strings.h>
#include <torch/headeronly/version.h>

#include "kernels/products/panel.h"
#include "kernels/rows/swiglu.h"

namespace kiln::cpu
{

/* Whether oneDNN is kept to one of these instruction sets, below the processor's. */
static bool kept_to(std::initializer_list<const char *> sets)
{
    const char *most = getenv("ONEDNN_MAX_CPU_ISA");
    most = most ? most : getenv("DNNL_MAX_CPU_ISA");
    for (const char *set : sets)
        if (most && strcasecmp(most, set) == 0)
            return true;
    return false;
}

bool kept_below_avx512()
{
    return kept_to({"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"});
}

/* Rows of a block: with a panel of any k they stay in the innermost caches. */
static constexpr int64_t block_rows = 64;
/* Values of k that are multiplied at once: a panel of so many lines fits beside a block. */
static constexpr int64_t depth = 512;
/* Rows for which a panel is made at least: making it costs as much as some ten rows. */
static constexpr int64_t least_rows = 256;

namespace blas = at::native::cpublas;

void multiply(kiln_float format, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
              const void *b, int64_t ldb, float *c, int64_t ldc)
{
    for (int64_t from = 0; from < k; from += depth) {
        const int64_t some = std::min(depth, k - from);
        if (format == KILN_BF16)
            blas::brgemm(m, n, some, lda, ldb, ldc, from > 0,
                         static_cast<const at::BFloat16 *>(a) + from,
                         static_cast<const at::BFloat16 *>(b) + from * ldb, c, /*is_vnni=*/true);
        else
            blas::brgemm(m, n, some, lda, ldb, ldc, from > 0, static_cast<const float *>(a) + from,
                         static_cast<const float *>(b) + from * ldb, c, /*is_vnni=*/false);
    }
}

/* The state of AMX is its thread's, and large. */
struct release_at_end {
    ~release_at_end() { blas::brgemm_release(/*is_vnni=*/true); }
};

/* Asks by trying: which instructions oneDNN may use can also be set from outside. */
static bool multiplies_once(kiln_float format)
{
    float values[block_step * KILN_PANEL] = {}, sums[block_step * KILN_PANEL];
    try {
        release_at_end release;
        multiply(format, block_step, KILN_PANEL, 2, values, 2, values, KILN_PANEL, sums,
                 KILN_PANEL);
        return true;
    } catch (const std::exception &) {
        return false;
    }
}

/* The flags alone would promise what oneDNN may not use. */
static bool likes_bf16()
{
    static const bool here = cpuinfo_initialize() &&
                             (cpuinfo_has_x86_amx_bf16() || cpuinfo_has_x86_avx512bf16()) &&
                             !kept_below_avx512() && !kept_to({"AVX512_CORE", "AVX512_CORE_VNNI"});
    return here;
}

static bool has_tiles()
{
    return likes_bf16() && cpuinfo_has_x86_amx_bf16() &&
           !kept_to({"AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX10_1_512"});
}

bool multiplies(at::ScalarType dtype)
{
    /* Without AVX2 LibTorch would multiply in fp32 by other means. */
    static const bool f32 = at::hasMKLDNN() && cpuinfo_initialize() && cpuinfo_has_x86_avx2() &&
                            multiplies_once(KILN_F32);
    static const bool bf16 = f32 && likes_bf16() && multiplies_once(KILN_BF16);
    return (dtype == at::kFloat && f32) || (dtype == at::kBFloat16 && bf16);
}

void share(int64_t tasks, const std::function<void(int64_t)> &f)
{
    std::atomic<int64_t> next{0};
    const int64_t threads = std::min<int64_t>(tasks, at::get_num_threads());
    at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
        release_at_end release;
        for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
            f(task);
    });
}

void *scratch(scratch_use use, int64_t bytes)
{
    struct piece {
        std::unique_ptr<char[]> memory;
        int64_t bytes = 0;
    };
    constexpr int64_t line = 64;
    static thread_local piece pieces[SCRATCH_USES];
    piece &p = pieces[use];
    if (p.bytes < bytes + line) {
        p.memory.reset(new char[static_cast<size_t>(bytes + line)]);
        p.bytes = bytes + line;
    }
    const auto start = reinterpret_cast<uintptr_t>(p.memory.get());
    return p.memory.get() + (line - start % line) % line;
}

bool takes_product(const at::Tensor &x, const at::Tensor &weight)
{
    return x.is_cpu() && x.dim() == 2 && weight.dim() == 2 &&
           x.scalar_type() == weight.scalar_type() && multiplies(x.scalar_type()) &&
           x.numel() > 0 && weight.numel() > 0 &&
           (x.scalar_type() == at::kFloat || x.size(1) % 2 == 0);
}

/* With few rows of x, making panels of the weight is a large part of the product.  Then the roles
 * change: the rows of the weight are the first operand where they are stored, x is the second, and
 * the results are transposed instead of the weight.  That pays off while x has at most a third as
 * many rows as a panel has lines.  The bits are the same. */
static bool swaps_operands(int64_t padded_rows, int64_t lines)
{
    return padded_rows <= block_rows && 3 * padded_rows <= lines;
}

/* How a product is shared out: so many panels, and rows in runs that make at least a few tasks for
 * each thread. */
struct shares {
    int64_t panels, runs, run_rows;

    shares(int64_t rows, int64_t columns) : panels(up_to(columns, KILN_PANEL) / KILN_PANEL)
    {
        constexpr int64_t tasks_each = 4;
        const int64_t wanted = up_to(tasks_each * at::get_num_threads(), panels) / panels;
        runs = std::max<int64_t>(1, std::min(wanted, rows / least_rows));
        run_rows = up_to(up_to(rows, runs) / runs, block_rows);
        runs = up_to(rows, run_rows) / run_rows;
    }
};

/* The operands of a product, dense. */
struct operands {
    at::Tensor x, weight;
    kiln_float format;
    int64_t rows, padded, k, lines, size, panel_bytes;
    const void *x_panel = nullptr; /* [lines][padded], if the operands are swapped */

    operands(const at::Tensor &x_, const at::Tensor &weight_)
        : x(dense(x_)), weight(dense(weight_)), format(format_of(x_)), rows(x.size(0)),
          padded(up_to(rows, block_step)), k(x.size(1)), lines(kiln_panel_lines(k, format)),
          size(kiln_float_size(format)), panel_bytes(lines * KILN_PANEL * 4)
    {
        TORCH_CHECK(weight.size(1) == k, "rows of ", k, " values for a weight of ", weight.sizes());
        if (swaps_operands(padded, lines)) {
            void *panel = scratch(PANELS, lines * padded * 4); /* tasks then make none */
            kiln_panel_of_rows(padded_rows(0, rows), padded, lines, panel, padded);
            x_panel = panel;
        }
    }
    /* The n rows of x from `row` on, with zeros behind them up to the next multiple of block_step;
     * lent until the next call. */
    const void *padded_rows(int64_t row, int64_t n) const
    {
        const char *from = static_cast<const char *>(x.const_data_ptr()) + row * k * size;
        const int64_t missing = up_to(n, block_step) - n;
        if (missing == 0)
            return from;
        char *copy = static_cast<char *>(scratch(ROWS, (n + missing) * k * size));
        memcpy(copy, from, static_cast<size_t>(n * k * size));
        memset(copy + n * k * size, 0, static_cast<size_t>(missing * k * size));
        return copy;
    }
    /* The n rows of the weight from `from` on as an operand of multiply_block: where they are
     * stored, or in panel 0 or 1 of this thread. */
    const void *weight_rows(int64_t from, int64_t n, int number) const
    {
        const char *own = static_cast<const char *>(weight.const_data_ptr()) + from * k * size;
        if (x_panel)
            return own;
        char *panel = static_cast<char *>(scratch(PANELS, 2 * panel_bytes)) + number * panel_bytes;
        kiln_panel_of_rows(own, n, lines, panel, KILN_PANEL);
        return panel;
    }
    /* Calls f(first row, number of rows, their values) for the blocks of a task's rows; behind the
     * rows of the last block the values are zeros.  Swapped operands: one block, as a panel. */
    template <class F> void each_block(const shares &s, int64_t task, F f) const
    {
        const int64_t begin = task / s.panels * s.run_rows;
        const int64_t end = std::min(rows, begin + s.run_rows);
        for (int64_t row = begin; row < end; row += block_rows) {
            const int64_t n = std::min(block_rows, end - row);
            f(row, n, x_panel ? x_panel : padded_rows(row, n));
        }
    }
    void multiply_block(int64_t n, const void *from, int64_t columns, const void *weights,
                        float *to, int64_t pitch) const
    {
        if (!x_panel)
            return multiply(format, up_to(n, block_step), columns, k, from, k, weights, KILN_PANEL,
                            to, pitch);
        float *sums = static_cast<float *>(scratch(RESULTS, columns * padded * 4));
        multiply(format, columns, padded, k, weights, k, from, padded, sums, padded);
        kiln_panel_of_rows(sums, columns, padded, to, pitch);
    }
};

at::Tensor product(const at::Tensor &x, const at::Tensor &weight, const at::Tensor &bias)
{
    const operands o(x, weight);
    const int64_t columns = o.weight.size(0);
    const at::Tensor b = dense(bias), y = at::empty({o.rows, columns}, o.x.options());
    TORCH_CHECK(!b.defined() || (b.scalar_type() == x.scalar_type() && b.numel() == columns),
                "a bias of ", b.toString(), b.sizes(), " for ", columns, " columns");
    const shares s(o.rows, columns);
    share(s.panels * s.runs, [&](int64_t task) {
        const int64_t at = task % s.panels * KILN_PANEL;
        const int64_t n = std::min<int64_t>(KILN_PANEL, columns - at);
        float *sums = static_cast<float *>(scratch(SUMS, block_rows * KILN_PANEL * 4));
        const char *own = static_cast<const char *>(data_of(b));
        const void *weights = o.weight_rows(at, n, 0);
        o.each_block(s, task, [&](int64_t row, int64_t rows, const void *from) {
            char *to = static_cast<char *>(y.data_ptr()) + (row * columns + at) * o.size;
            if (o.format == KILN_F32 && !own && rows % block_step == 0)
                return o.multiply_block(rows, from, n, weights, reinterpret_cast<float *>(to),
                                        columns);
            o.multiply_block(rows, from, n, weights, sums, KILN_PANEL);
            const kiln_panel_sums store{sums,    to,      own ? own + at * o.size : nullptr,
                                        nullptr, n,       KILN_PANEL,
                                        columns, o.format};
            kiln_panel_store(&store, rows);
        });
    });
    return y;
}

at::Tensor gated_product(const at::Tensor &x, const at::Tensor &weight)
{
    const operands o(x, weight);
    const int64_t columns = o.weight.size(0) / 2;
    TORCH_CHECK(2 * columns == o.weight.size(0), "gate and up of ", o.weight.size(0), " rows");
    const at::Tensor y = at::empty({o.rows, columns}, o.x.options());
    const shares s(o.rows, columns);
    share(s.panels * s.runs, [&](int64_t task) {
        const int64_t at = task % s.panels * KILN_PANEL;
        const int64_t n = std::min<int64_t>(KILN_PANEL, columns - at);
        float *sums = static_cast<float *>(scratch(SUMS, block_rows * 2 * KILN_PANEL * 4));
        void *both = o.format == KILN_F32 ? sums : scratch(VALUES, block_rows * 2 * KILN_PANEL * 2);
        const void *gate = o.weight_rows(at, n, 0);
        const void *up = o.weight_rows(columns + at, n, 1);
        o.each_block(s, task, [&](int64_t row, int64_t rows, const void *from) {
            o.multiply_block(rows, from, n, gate, sums, 2 * n);
            o.multiply_block(rows, from, n, up, sums + n, 2 * n);
            if (both != sums) {
                const kiln_panel_sums store{sums,  both,  nullptr, nullptr,
                                            2 * n, 2 * n, 2 * n,   o.format};
                kiln_panel_store(&store, rows);
            }
            kiln_swiglu gated{};
            gated.gate_up = both, gated.n = n, gated.pitch = columns, gated.format = o.format;
            gated.y = static_cast<char *>(y.data_ptr()) + (row * columns + at) * o.size;
            kiln_swiglu_ref(&gated, 0, rows);
        });
    });
    return y;
}

} // namespace kiln::cpu

bool kt_cpu_likes_bf16(void)
{
    return kiln::cpu::likes_bf16();
}

void kt_describe(char *text, size_t size)
{
    const bool f32 = kiln::cpu::multiplies(at::kFloat), bf16 = kiln::cpu::multiplies(at::kBFloat16);
    const char *products = bf16 && kiln::cpu::has_tiles()
                               ? "Kiln multiplies fp32 and, with AMX, bf16"
                           : bf16 ? "Kiln multiplies fp32 and bf16"
                           : f32  ? "Kiln multiplies fp32"
                                  : "LibTorch multiplies matrices, too";
    snprintf(text, size, "LibTorch %s; on this CPU its operators use %s, and %s", TORCH_VERSION,
             at::get_cpu_capability().c_str(), products);
}
