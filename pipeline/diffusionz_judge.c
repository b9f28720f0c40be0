/* diffusionz_judge.c - the judge behind the library's wall of symbols; see diffusionz_judge.h. */
#include "pipeline/diffusionz_judge.h"

#include "pipeline/context.h"
#include "pipeline/judge/judge.h"

/* The handle is the judge itself: there is nothing to add. */
static struct kiln_judge *inner(const DiffusionZJudge *judge)
{
    return (struct kiln_judge *)(uintptr_t)judge;
}

int32_t diffusionz_judge_open(const char *dir, int32_t device_id, DiffusionZJudge **ret)
{
    struct kiln_error err = {0};
    struct kiln_judge *judge = NULL;
    if (!dir || !ret)
        kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL");
    else if (kiln_judge_open(dir, device_id, &judge, &err) == 0)
        *ret = (DiffusionZJudge *)judge;
    return err.code ? kiln_context_note(&err) : 0;
}

void diffusionz_judge_free(DiffusionZJudge *judge)
{
    kiln_judge_close(inner(judge));
}

const struct kiln_judge_labels *diffusionz_judge_labels(const DiffusionZJudge *judge)
{
    return kiln_judge_labels(inner(judge));
}

int32_t diffusionz_judge_look(DiffusionZJudge *judge, const uint8_t *rgb, int32_t width,
                              int32_t height, struct kiln_seen *ret)
{
    struct kiln_error err = {0};
    if (!judge || !rgb || !ret)
        kiln_fail(&err, KILN_BAD_INPUT, "an argument is NULL");
    else
        (void)!kiln_judge_look(inner(judge), rgb, width, height, ret, &err);
    return err.code ? kiln_context_note(&err) : 0;
}
