/* hopper.cuh - what a multiprocessor of compute capability 9.0 does by itself while its threads do
 * something else: it copies boxes of a matrix to shared memory and back (TMA), counts at a barrier
 * what has arrived (mbarrier), and multiplies what lies there (wgmma); and products of a warp's own
 * registers beside them.
 *
 * Most of it is machine code of sm_90a alone.  Kernels are templates that have their body behind
 * `if constexpr (built_for_hopper)` and are empty elsewhere; check_hopper() refuses to launch
 * those.
 *
 * A box is 128 bytes wide, 64 values of bf16 or 128 codes of e4m3, and begins on 1,024 bytes.  Its
 * rows lie one behind the other, but the 16 bytes at place c of row r are where place c ^ (r % 8)
 * would be: eight rows of one column are then in different banks.  TMA and wgmma both read and
 * write it like that.  What a box has beyond the matrix is zeros when it is loaded, and left out
 * when it is stored.
 *
 * A kernel that loads for others to multiply has a ring of stages, and for each of them a barrier
 * that says it is filled and one that says it is empty.  A barrier goes from phase to phase: one is
 * over when as many as it was made for have arrived, and all the bytes that they announced.  To
 * wait for parity p is to wait for the end of a phase with that parity, of which the first has 0;
 * for parity 1 nobody waits before it.
 */
#ifndef KILN_HOPPER_CUH
#define KILN_HOPPER_CUH

#include <cuda.h>
#include <cudaTypedefs.h>

#include "kernels/device.cuh"

namespace kiln
{

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool built_for_hopper = true;
#else
constexpr bool built_for_hopper = false;
#endif

constexpr int warpgroup_size = 128; /* four warps, which wgmma takes together */
constexpr int box_pitch = 128;      /* bytes */
constexpr unsigned box_alignment = 1024;

enum box_values { BOX_BF16, BOX_E4M3 };
template <box_values V> constexpr int value_bytes = V == BOX_BF16 ? 2 : 1;
template <box_values V> constexpr int box_columns = box_pitch / value_bytes<V>;

/* --- clusters of blocks: the same address in each is the same place of its own memory --------- */

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* Every thread of the cluster calls this, and passes when all have. */
__device__ __forceinline__ void meet_cluster()
{
    __syncwarp(); /* where some of a warp come later, which `aligned` forbids */
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

__device__ __forceinline__ void store_to(uint32_t address, float4 v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y),
                 "f"(v.z), "f"(v.w)
                 : "memory");
}

/* 16 bytes of the memory of the cluster's block `rank`. */
__device__ __forceinline__ float4 load_from(uint32_t address, int rank)
{
    float4 v;
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
                 "}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address), "r"(rank)
                 : "memory");
    return v;
}

/* --- barriers --------------------------------------------------------------------------------- */

__device__ __forceinline__ void make_barrier(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

/* Before the cluster meets, or the thread loads boxes: what comes next finds the barriers made. */
__device__ __forceinline__ void show_barriers()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives, and announces bytes that boxes will bring. */
__device__ __forceinline__ void expect_bytes(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* Arrives at the barrier of the cluster's block `rank`. */
__device__ __forceinline__ void arrive_at(uint32_t barrier, int rank)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

/* What others have left before they arrived is there afterwards. */
__device__ __forceinline__ void await_phase(uint32_t barrier, int parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* --- boxes ------------------------------------------------------------------------------------ */

/* The box that begins at this column and row of the matrix; its bytes arrive at the barrier. */
__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap &matrix, uint32_t barrier,
                                         int column, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(&matrix), "r"(barrier), "r"(column), "r"(row)
                 : "memory");
}

/* The same into both blocks of a cluster of two, read once; it arrives at the barrier of either. */
__device__ __forceinline__ void load_box_for_both(uint32_t to, const CUtensorMap &matrix,
                                                  uint32_t barrier, int column, int row)
{
    constexpr uint16_t both = 3; /* a bit a block */
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(&matrix), "r"(barrier), "r"(column), "r"(row), "h"(both)
                 : "memory");
}

/* Before a thread stores a box: the block's own writes to it are seen by TMA. */
__device__ __forceinline__ void show_writes()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void store_box(const CUtensorMap &matrix, uint32_t from, int column,
                                          int row)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n"
                 "cp.async.bulk.commit_group;" ::"l"(&matrix),
                 "r"(from), "r"(column), "r"(row)
                 : "memory");
}

/* Of the boxes that this thread has stored, all but the last LEFT have been read: their memory may
 * be written again. */
template <int LEFT> __device__ __forceinline__ void await_box_reads()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

__device__ __forceinline__ void await_stores()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Four squares of 8 by 8 values: lane l holds of each, in a word, columns 2q and 2q + 1 of row g (g
 * = l / 4, q = l % 4), and gives the address of row l % 8 of the square l / 8. */
__device__ __forceinline__ void store_squares(uint32_t row, const uint32_t words[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

/* Four squares as store_squares leaves them, from the same places. */
__device__ __forceinline__ void load_squares(uint32_t row, uint32_t words[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(row)
                 : "memory");
}

/* --- products: one warpgroup, out of boxes -----------------------------------------------------
 */

/* What wgmma is told of a box, or of the rows of one from a multiple of 8 on. */
__device__ __forceinline__ uint64_t box_operand(uint32_t at)
{
    constexpr uint64_t eight_rows = 8 * box_pitch / 16, swizzled_128_bytes = 1;
    return (at & 0x3ffff) / 16 | eight_rows << 32 | swizzled_128_bytes << 62;
}

/* From there to the same rows, 32 bytes further: what one product takes. */
constexpr int step_bytes = 32;
constexpr uint64_t next_step = step_bytes / 16;

/* Lists of operands.  The names of ten: "%20, %21, ... %29, ". */
#define KILN_NAMES(tens)                                                                           \
    "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, "                                 \
    "%" tens "5, %" tens "6, %" tens "7, %" tens "8, %" tens "9, "
#define KILN_NAMES_0_TO_7 "%0, %1, %2, %3, %4, %5, %6, %7"
#define KILN_NAMES_0_TO_15 KILN_NAMES("") "%10, %11, %12, %13, %14, %15"
#define KILN_NAMES_0_TO_23 KILN_NAMES("") KILN_NAMES("1") "%20, %21, %22, %23"
#define KILN_NAMES_0_TO_31 KILN_NAMES("") KILN_NAMES("1") KILN_NAMES("2") "%30, %31"
/* clang-format off */
#define KILN_NAMES_0_TO_127                                                                        \
    KILN_NAMES("") KILN_NAMES("1") KILN_NAMES("2") KILN_NAMES("3") KILN_NAMES("4") KILN_NAMES("5") \
    KILN_NAMES("6") KILN_NAMES("7") KILN_NAMES("8") KILN_NAMES("9") KILN_NAMES("10") KILN_NAMES("11")\
    "%120, %121, %122, %123, %124, %125, %126, %127"
/* clang-format on */
#define KILN_FLOATS_4(p) "+f"((p)[0]), "+f"((p)[1]), "+f"((p)[2]), "+f"((p)[3])
#define KILN_FLOATS_8(p) KILN_FLOATS_4(p), KILN_FLOATS_4((p) + 4)
#define KILN_FLOATS_16(p) KILN_FLOATS_8(p), KILN_FLOATS_8((p) + 8)
#define KILN_FLOATS_24(p) KILN_FLOATS_16(p), KILN_FLOATS_8((p) + 16)
#define KILN_FLOATS_32(p) KILN_FLOATS_16(p), KILN_FLOATS_16((p) + 16)
#define KILN_FLOATS_64(p) KILN_FLOATS_32(p), KILN_FLOATS_32((p) + 32)
#define KILN_FLOATS_128(p) KILN_FLOATS_64(p), KILN_FLOATS_64((p) + 64)

/* Before the first product of a run: the warpgroup's registers are as its threads left them. */
__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* One wgmma: the sums and then a, b and add are its operands, by these names.  In bf16 it is told
 * that neither a nor b is transposed; in e4m3 neither could be. */
#define KILN_WGMMA(kind, names, a_name, b_name, add_name, transposed, ...)                         \
    asm volatile("{\n"                                                                             \
                 ".reg .pred more;\n"                                                              \
                 "setp.ne.b32 more, " add_name ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64" kind " {" names "}, " a_name ", " b_name       \
                 ", more, 1, 1" transposed ";\n"                                                   \
                 "}"                                                                               \
                 : __VA_ARGS__                                                                     \
                 : "l"(a), "l"(b), "r"(add))
#define KILN_MULTIPLY(columns, names, a_name, b_name, add_name, ...)                               \
    if constexpr (V == BOX_BF16)                                                                   \
        KILN_WGMMA(columns "k16.f32.bf16.bf16", names, a_name, b_name, add_name, ", 0, 0",         \
                   __VA_ARGS__);                                                                   \
    else                                                                                           \
        KILN_WGMMA(columns "k32.f32.e4m3.e4m3", names, a_name, b_name, add_name, "", __VA_ARGS__)

/* sums [64][N] (+)= a [64][step] b [N][step]^T, where `add` is not 0 the sum with what was there; a
 * step is 16 values of bf16 or 32 codes.
 *
 * Lane l of warp w, with g = l / 4 and q = l % 4, holds of columns 8j .. 8j + 7
 *     sums[4j], sums[4j + 1]      row 16w + g, columns 8j + 2q and 8j + 2q + 1
 *     sums[4j + 2], sums[4j + 3]  row 16w + g + 8, the same columns
 * They are being written until await_products() says otherwise. */
template <box_values V, int N>
__device__ __forceinline__ void multiply(float (&sums)[N / 2], uint64_t a, uint64_t b, int add)
{
    if constexpr (N == 16) {
        KILN_MULTIPLY("n16", KILN_NAMES_0_TO_7, "%8", "%9", "%10", KILN_FLOATS_8(sums));
    } else if constexpr (N == 32) {
        KILN_MULTIPLY("n32", KILN_NAMES_0_TO_15, "%16", "%17", "%18", KILN_FLOATS_16(sums));
    } else if constexpr (N == 48) {
        KILN_MULTIPLY("n48", KILN_NAMES_0_TO_23, "%24", "%25", "%26", KILN_FLOATS_24(sums));
    } else if constexpr (N == 64) {
        KILN_MULTIPLY("n64", KILN_NAMES_0_TO_31, "%32", "%33", "%34", KILN_FLOATS_32(sums));
    } else {
        static_assert(N == 256, "a width that nobody has asked for");
        KILN_MULTIPLY("n256", KILN_NAMES_0_TO_127, "%128", "%129", "%130", KILN_FLOATS_128(sums));
    }
}

/* Ends a run of products. */
__device__ __forceinline__ void end_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* All runs but the last LEFT have read their boxes and written their sums. */
template <int LEFT> __device__ __forceinline__ void await_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* Behind the last of them: no use of the sums is moved in front of this.  It is no instruction. */
template <int SUMS> __device__ __forceinline__ void take_sums(float (&sums)[SUMS])
{
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        asm volatile("" : "+f"(sums[i])::"memory");
}

/* --- products: one warp, out of registers -----------------------------------------------------
 */

/* One warp: sums [16][8] += a [16][16] b [8][16]^T in bf16.  a is four squares, rows 0 to 7 and 8
 * to 15 of columns 0 to 7 and then of the other columns; b is two.  Sums are those of multiply(),
 * of eight columns. */
__device__ __forceinline__ void multiply_squares(float sums[4], const uint32_t a[4],
                                                 const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* --- registers, which warpgroups give to each other ---------------------------------------------
 */

template <int EACH> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(EACH));
}

template <int EACH> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(EACH));
}

/* Of one warpgroup; `name` is none of 0, which is __syncthreads(), and its own. */
__device__ __forceinline__ void meet_warpgroup(int name)
{
    asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(warpgroup_size) : "memory");
}

/* --- launching -------------------------------------------------------------------------------- */

/* Whether the current device can run the kernel, and how many multiprocessors it has.  A kernel has
 * barriers in shared memory of its own, unless its body was left out. */
inline int check_hopper(struct kiln_error *err, const char *name, const void *kernel,
                        int *ret_multiprocessors)
{
    int device = 0, major = 0, minor = 0;
    cudaFuncAttributes code = {};
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(ret_multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess)
        return launched(err, name);
    if (major != 9 || minor != 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: compute capability %d.%d, not 9.0", name,
                         major, minor);
    if (cudaFuncGetAttributes(&code, kernel) != cudaSuccess)
        return launched(err, name);
    if (code.sharedSizeBytes == 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: the build has no code for sm_90a", name);
    return KILN_OK;
}

/* The driver's function for it, without a link to the driver; NULL where it has none. */
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder()
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned since = 12000;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, since, cudaEnableDefault,
                                         &result) != cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
        return nullptr;
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
}

/* How TMA finds its way in a matrix: boxes of so many rows.  The matrix is on 16 bytes, and so is
 * each of its rows; the pitch is in values. */
template <box_values V>
static int map_matrix(struct kiln_error *err, const char *name, CUtensorMap *ret_map,
                      const void *matrix, int64_t rows, int64_t columns, int64_t pitch,
                      int box_rows)
{
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = tensor_map_encoder();
    constexpr CUtensorMapDataType type =
        V == BOX_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    const cuuint64_t size[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t row_bytes[] = {static_cast<cuuint64_t>(pitch) * value_bytes<V>};
    const cuuint32_t box[] = {box_columns<V>, static_cast<cuuint32_t>(box_rows)};
    const cuuint32_t step[] = {1, 1};
    if (!encode)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s: the driver makes no tensor maps", name);
    const CUresult code =
        encode(ret_map, type, 2, const_cast<void *>(matrix), size, row_bytes, box, step,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return code == CUDA_SUCCESS
               ? KILN_OK
               : kiln_fail(err, KILN_DEVICE, "%s: a tensor map of %lld x %lld: CUDA error %d", name,
                           (long long)rows, (long long)columns, static_cast<int>(code));
}

/* Queues a kernel whose blocks, a multiple of `size`, are clusters of so many (at most 8) and have
 * `shared` bytes each. */
template <typename... Params, typename... Args>
static int launch_in_clusters(struct kiln_error *err, const char *name, void (*kernel)(Params...),
                              int size, int blocks, int threads, int shared, kiln_stream stream,
                              const Args &...args)
{
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(threads), config.stream = stream;
    config.dynamicSmemBytes = static_cast<size_t>(shared);
    config.attrs = &cluster, config.numAttrs = 1;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) ==
        cudaSuccess)
        (void)cudaLaunchKernelEx(&config, kernel, args...); /* launched() asks for its error */
    return launched(err, name);
}

} // namespace kiln

#endif
