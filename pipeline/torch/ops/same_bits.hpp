/* same_bits.hpp - whether work shared out in two ways gives the same bits, found out once a shape.
 *
 * Which kernel a library takes follows from the shapes alone and is documented nowhere.  So both
 * ways are tried and compared, which waits for the device; not while a graph is recorded, where the
 * answer is no.
 */
#ifndef KILN_TORCH_SAME_BITS_HPP
#define KILN_TORCH_SAME_BITS_HPP

#include <map>
#include <mutex>

#include "pipeline/torch/internal.hpp"

namespace kiln
{

template <class SHAPE> class same_bits
{
    std::mutex lock_;
    std::map<SHAPE, bool> known_;

  public:
    /* compare tries both ways and returns whether the bits are the same. */
    template <class F> bool ask(const SHAPE &shape, F &&compare)
    {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            if (const auto found = known_.find(shape); found != known_.end())
                return found->second;
        }
        if (is_recording())
            return false;
        const bool answer = compare();
        const std::lock_guard<std::mutex> guard(lock_);
        known_[shape] = answer;
        return answer;
    }
};

} // namespace kiln

#endif
