/* arena.hpp - memory of tensors on the CPU, kept between operations. */
#ifndef KILN_TORCH_ARENA_HPP
#define KILN_TORCH_ARENA_HPP

namespace kiln
{

/* From now on LibTorch takes the memory of large tensors from the arena, in the whole process.  May
 * be called again. */
void use_arena();
/* Returns the arena's unused memory to the system. */
void trim_arena() noexcept;

} // namespace kiln

#endif
