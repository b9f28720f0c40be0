/* quality_options.c - the command line of `kiln bench quality`; see quality.h. */
#include "worker/bench/quality.h"
#include "worker/engine/batch_steps.h"

#define COUNT_DEFAULT 100

const char kiln_quality_usage[] =
    "Usage: kiln bench quality [options]\n"
    "\n"
    "Renders prompts whose pictures can be checked, detects the objects in each\n"
    "picture, and prints how much of what the prompts say is right. The judge knows\n"
    "the world of the demo model.\n"
    "\n"
    "  --model DIR            diffusers layout (that of the settings, else the demo\n"
    "                         model)\n"
    "  --prompts FILE         JSON lines: prompts and what they ask for (the lists of\n"
    "                         tests/quality)\n"
    "  --sizes N,WxH,...      instead of the sizes of the prompts\n"
    "  --steps N,...          (as kiln.json of the model says, else 8; the standard\n"
    "                         table also has a row of 4)\n"
    "  --dtype fp32,bf16,fp8  one or more (fp32)\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "  -n N                   at most N prompts of each list (100; with --prompts\n"
    "                         all)\n"
    "  --lora FILE[:W]        a safetensors file and its strength (1); up to 3 times\n"
    "  --coarse S+L           coarse first: S steps at half the side, then L at full\n"
    "                         size (off); from 1024 px also S+M+L: S at a quarter,\n"
    "                         M at half\n"
    "  --variety X            more variety between seeds, 0 to 1 (0)\n"
    "  --style NAME[,NAME]    count pictures in this style, or in both; adds \", NAME\n"
    "                         style\" to the prompts\n"
    "  --suffix TEXT          add this to the prompts instead\n"
    "  --failures DIR         write the pictures that are not all right, and what was\n"
    "                         seen\n"
    "  --at-least PCT         exit with 1 if a row has a smaller share of its\n"
    "                         attributes right\n"
    "  --judge DIR            another judge\n"
    "  --threads N            of the CPU (all)\n"
    "  --json                 one object on standard output\n"
    "\n"
    "Examples:\n"
    "  kiln bench quality\n"
    "  kiln bench quality --sizes 256x256,512x512 --steps 8,4 --dtype fp32,bf16 -n 50\n"
    "  kiln bench quality --lora neon.safetensors --style neon --failures wrong\n";

int kiln_quality_options_read(int argc, char **argv, struct kiln_quality_options *ret,
                              struct kiln_error *err)
{
    struct kiln_quality_options o = {.device = -1};
    const int most = KILN_QUALITY_LIST_MAX;
    double variety = 0;
    const struct kiln_verb_option table[] = {
        {"model", kiln_take_text, .to = &o.model},
        {"prompts", kiln_take_text, .to = &o.prompts},
        {"sizes", kiln_take_size, .to = o.sizes, 0, 0, &o.size_count, sizeof *o.sizes, most},
        {"steps", kiln_take_small, .to = o.steps, KILN_STEPS_MIN, KILN_STEPS_MAX, &o.step_count,
         sizeof *o.steps, most},
        {"dtype", kiln_take_dtype, .to = o.dtypes, 0, 0, &o.dtype_count, sizeof *o.dtypes, most},
        {"device", kiln_take_device, .to = &o.device},
        {"n", kiln_take_whole, .to = &o.count, 1, KILN_REQUESTS_MAX},
        {"lora", kiln_take_lora, .to = o.loras, .list = &o.lora_count, .most = KILN_LORAS_MAX},
        {"coarse", kiln_take_coarse, .to = &o.mode},
        {"variety", kiln_take_number, .to = &variety, 0, 1},
        {"style", kiln_take_text, .to = &o.style},
        {"suffix", kiln_take_text, .to = &o.suffix},
        {"failures", kiln_take_text, .to = &o.failures},
        {"at-least", kiln_take_number, .to = &o.at_least, 0, 100},
        {"judge", kiln_take_text, .to = &o.judge},
        {"lists", kiln_take_text, .to = &o.lists}, /* kiln-bench says where they are installed */
        {"threads", kiln_take_small, .to = &o.threads, 0, KILN_THREADS_MAX},
        {"json", NULL, .to = &o.json},
        {0},
    };
    int code = kiln_verb_options("bench quality", argc, argv, table, &o.help, err);
    (void)kiln_mode_variety(variety, &o.mode.variety);
    if (!code && !o.help && (!o.judge || (!o.prompts && !o.lists)))
        code = kiln_fail(err, KILN_BAD_INPUT, "%s is missing",
                         o.judge ? "--prompts FILE" : "--judge DIR");
    if (!o.count)
        o.count = o.prompts ? KILN_REQUESTS_MAX : COUNT_DEFAULT;
    o.usual_steps = kiln_batch_steps_usual(o.model);
    if (!o.dtype_count)
        o.dtypes[o.dtype_count++] = DIFFUSIONZ_FP32;
    if (!code)
        *ret = o;
    return code;
}
