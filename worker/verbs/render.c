/* render.c - `kiln render`: one picture, no queue: the C ABI from a shell.
 *
 * The command line and the paths to write are checked before the model is loaded, which takes long.
 * A wrong command line ends with status 64; a file or a device that fails with the status of its
 * error (66: no such file, 74: it cannot be written, 75: the disk is full, 69: the device).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "pipeline/diffusionz_batch.h"
#include "schemas/limits.h"
#include "schemas/reuse/known.h"
#include "storage/formats/card/model_card.h"
#include "storage/formats/card/model_words.h"
#include "storage/formats/file_hash.h"
#include "storage/formats/pictures/picture_mask.h"
#include "storage/formats/safetensors.h"

#include "storage/formats/pictures/picture_write.h"
#include "worker/engine/batch_mode.h"
#include "worker/engine/batch_steps.h"
#include "worker/engine/renderer.h"
#include "worker/verbs/names.h"
#include "worker/verbs/options.h"
#include "worker/verbs/verbs.h"

static const char usage[] =
    "Usage: kiln render [--model DIR] --prompt TEXT --out FILE.webp [options]\n"
    "\n"
    "Renders one picture without a queue; FILE.png and FILE.jpg are written as such.\n"
    "\n"
    "  --model DIR            diffusers layout (that of the settings, else the demo\n"
    "                         model)\n"
    "  --width N --height N   pixels, multiples of 16, 64 to 2048 (the model's own)\n"
    "  --size S               instead: 1344x768, or a shape at the model's own size:\n"
    "                         16:9, 16:9 xl\n"
    "  --steps N              1 to 50 (as kiln.json of the model says, else 8)\n"
    "  --coarse S+L|auto      S of the steps at about half the side, then L at full\n"
    "                         size: faster; from 1024 px also S+M+L: S at a quarter\n"
    "                         of the side, M at half; auto: what the model's\n"
    "                         kiln.json names for the size, else not\n"
    "  --coarse-sigma X       noise level at which these begin, above 0 and below 1\n"
    "                         (0.75)\n"
    "  --init-image FILE      start from this picture: WebP, PNG or JPEG; without\n"
    "                         --width and --height its own size, else it is resized\n"
    "  --init-mask FILE       inpaint: where this picture is white the start is\n"
    "                         rendered anew, where it is black it stays; both have\n"
    "                         one shape\n"
    "  --strength X           how much changes, above 0 to 1 (0.6; with a mask 1)\n"
    "  --start-sigma X        instead: noise level at which it begins, above 0 to 1\n"
    "  --variety X            more variety between seeds, 0 to 1 (0); how much costs\n"
    "                         little is said by kiln.json of the model (demo model:\n"
    "                         0.4 at 256 px, 0.2 at 512 px)\n"
    "  --seed N               0 to 2^64-1 (0); the noise of a CPU torch.Generator\n"
    "  --guidance X           0 to 30 (0); above 0 the negative prompt is used\n"
    "  --negative-prompt TEXT what the picture should not show\n"
    "  --style NAME           words around the prompt; `kiln styles` lists them\n"
    "  --lora NAME[:W]        a LoRA of lora_dir or MODEL/loras, or the path of a\n"
    "                         safetensors file, and its strength (1); up to 3 times\n"
    "  --loras SET            all of them, as in a job line: ink:0.8+paper\n"
    "  --allow-empty          render an empty prompt\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "  --dtype fp32|bf16|fp8  (what suits the device)\n"
    "  --threads N            of the CPU, 0 for all (0)\n"
    "  --lossless             exact pixels in a WebP file, as PNG always has them\n"
    "  --latent FILE          also the latent before the VAE, as safetensors: F32 [C,\n"
    "                         H/8, W/8]\n"
    "  --json                 one line about the picture on standard output\n"
    "  --lora-dir DIR, --styles FILE   instead of those of the settings\n"
    "\n"
    "Keys of a job line have their names here too (`kiln help job`). Older names:\n"
    "--init, --mask, --negative, --latents.\n"
    "\n"
    "Examples:\n"
    "  kiln render --model pipeline/models/sketch --prompt 'a red star' --seed 7 \\\n"
    "      --out star.webp\n"
    "  kiln render --model pipeline/models/sketch --prompt 'a red star' \\\n"
    "      --lora neon:0.8 --out neon.webp\n";

struct render {
    DiffusionZOptions options;
    DiffusionZItem item;
    DiffusionZBatch batch;
    DiffusionZLora loras[KILN_LORAS_MAX];
    struct kiln_model_card card;
    struct kiln_batch_steps steps; /* what the batch has of it */
    struct kiln_mode mode;
    double coarse_sigma, strength, start_sigma; /* negative: not given */
    const char *init, *mask, *out, *latents;
    struct kiln_verb_start start; /* of --init-image and --init-mask */
    float *grid;                  /* the mask, for the model */
    bool lossless, json, allow_empty;
    struct kiln_verb_names names;
};

/* --- the command line ----------------------------------------------------------------------- */

static int check_complete(const struct render *render, struct kiln_error *err)
{
    const char *missing = !render->options.model_path ? "--model DIR"
                          : !render->item.prompt      ? "--prompt TEXT"
                          : !render->out              ? "--out FILE.webp"
                                                      : NULL;
    if (missing)
        return kiln_fail(err, KILN_BAD_INPUT, "%s is missing", missing);
    if (!render->allow_empty && !render->item.prompt[strspn(render->item.prompt, " \t\r\n")])
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--prompt is empty; --allow-empty renders it all the same");
    if (kiln_picture_format_of_path(render->out) < 0)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--out %s: a picture's name ends with .webp, .png or .jpg", render->out);
    if (render->latents && kiln_verb_same_file(render->out, render->latents))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--latent %s: --out writes there, too; name another file",
                         render->latents);
    return 0;
}

/* What was called by name: the size, the style, LoRAs. */
static int read_names(struct render *render, struct kiln_error *err)
{
    struct kiln_verb_names *names = &render->names;
    DiffusionZBatch *b = &render->batch;
    int code = 0;
    names->model = render->options.model_path;
    if (names->size && (b->width || b->height))
        return kiln_fail(err, KILN_BAD_INPUT, "--size and --%s: give one of them",
                         b->width ? "width" : "height");
    if (names->size)
        code = kiln_verb_names_size(names, &b->width, &b->height, err);
    if (code == 0 && names->style)
        code = kiln_verb_names_style(names, &render->item, err);
    return code ? code : kiln_verb_names_loras(names, render->loras, b->lora_count, err);
}

/* The model's own number of steps, sigmas and weights. */
static int read_card(struct render *render, struct kiln_error *err)
{
    DiffusionZBatch *b = &render->batch;
    int code = kiln_model_card_read(render->options.model_path, &render->card, err);
    if (code)
        return code;
    if (b->num_steps == 0)
        b->num_steps = kiln_batch_steps_usual(render->options.model_path);
    return kiln_batch_set_steps(b, &render->card, render->options.model_path, &render->steps, err);
}

/* The mode by --strength or --start-sigma. */
static int check_depth(struct render *render, struct kiln_error *err)
{
    const double usual = render->mask ? KILN_STRENGTH_MASKED : KILN_STRENGTH_DEFAULT;
    const double strength = render->strength < 0 ? usual : render->strength;
    struct kiln_mode *mode = &render->mode;
    if (render->start_sigma >= 0) {
        mode->kind = KILN_MODE_START_SIGMA;
        if (render->strength >= 0)
            return kiln_fail(err, KILN_BAD_INPUT, "--strength and --start-sigma: give one of them");
        if (!kiln_mode_sigma(render->start_sigma, &mode->sigma))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "--start-sigma %g: must be above 0, and 1 at most",
                             render->start_sigma);
    } else if (!kiln_mode_of_strength(strength, (uint32_t)render->batch.num_steps, mode)) {
        return kiln_fail(err, KILN_BAD_INPUT, "--strength %g: must be above 0, and 1 at most",
                         strength);
    }
    mode->masked = render->mask != NULL;
    return 0;
}

/* The size, or that of --init-image later, and the mode. */
static int check_start(struct render *render, struct kiln_error *err)
{
    DiffusionZBatch *b = &render->batch;
    if (render->mask && !render->init)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--init-mask needs --init-image FILE, the picture to change");
    if (!render->init) {
        b->width = b->width ? b->width : KILN_SIDE_DEFAULT;
        b->height = b->height ? b->height : KILN_SIDE_DEFAULT;
        return render->strength < 0 && render->start_sigma < 0
                   ? 0
                   : kiln_fail(err, KILN_BAD_INPUT, "--%s needs --init-image FILE",
                               render->strength < 0 ? "start-sigma" : "strength");
    }
    if (render->mode.kind == KILN_MODE_COARSE)
        return kiln_fail(err, KILN_BAD_INPUT, "--coarse and --init-image: choose one");
    if ((b->width == 0) != (b->height == 0))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--init-image: give both --width and --height, or neither");
    return check_depth(render, err);
}

/* Coarse first or a start, as fields of the batch. */
static int set_mode(struct render *render, struct kiln_error *err)
{
    const DiffusionZBatch *b = &render->batch;
    struct kiln_mode *mode = &render->mode;
    const bool coarse = mode->kind == KILN_MODE_COARSE;
    const struct kiln_picture_size full = {(uint32_t)b->width, (uint32_t)b->height};
    const struct kiln_model_card *card = &render->card;
    char steps[KILN_MODE_MAX];
    if (!kiln_mode_variety(render->item.variety, &mode->variety))
        return kiln_fail(err, KILN_BAD_INPUT, "--variety %g: must be 0 to 1", render->item.variety);
    render->item.variety = mode->variety;
    if (!coarse && render->coarse_sigma >= 0)
        return kiln_fail(err, KILN_BAD_INPUT, "--coarse-sigma needs --coarse S+L");
    if (coarse && render->coarse_sigma >= 0 &&
        (!kiln_mode_sigma(render->coarse_sigma, &mode->sigma) || mode->sigma >= 1))
        return kiln_fail(err, KILN_BAD_INPUT, "--coarse-sigma %g: must be above 0 and below 1",
                         render->coarse_sigma);
    int code = kiln_coarse_check("--coarse", mode, full, (uint32_t)b->num_steps, err);
    if (code)
        return code;
    if (mode->kind == KILN_MODE_COARSE_AUTO) /* as the loaded model has it */
        return 0;
    if (kiln_batch_set_mode(&render->batch, mode, card->coarse_sizes, card->coarse_size_count))
        return 0;
    kiln_mode_steps_text(mode, steps);
    if (card->coarse_size_count)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--coarse %s: " KILN_MODEL_CARD
                         " of the model lists no small size for %d x %d",
                         steps, b->width, b->height);
    return kiln_fail(err, KILN_BAD_INPUT, "--coarse %s: %d x %d is too small to halve", steps,
                     b->width, b->height);
}

/* A size that the model was not made for is rendered, and nobody should wonder. */
static void warn_of_size(const struct render *render)
{
    char sizes[256];
    const DiffusionZBatch *b = &render->batch;
    if (!kiln_model_card_knows(&render->card, (uint32_t)b->width, (uint32_t)b->height))
        fprintf(stderr,
                "kiln render: the model was not made for %dx%d, so the picture may be poor; it "
                "knows %s\n",
                b->width, b->height,
                kiln_model_card_sizes_text(&render->card, sizes, sizeof sizes));
}

static void warn_of_variety(const struct render *render)
{
    char why[KILN_CARD_WHY];
    const DiffusionZBatch *b = &render->batch;
    if (kiln_model_card_too_varied(&render->card, render->mode.variety, (uint32_t)b->width,
                                   (uint32_t)b->height, why))
        fprintf(stderr, "kiln render: %s\n", why);
}

static void warn_of_guidance(const struct render *render)
{
    char why[KILN_CARD_WHY];
    if (kiln_model_card_unguided(&render->card, (double)render->batch.guidance_scale, why))
        fprintf(stderr, "kiln render: %s\n", why);
}

/* A model that lists its words guesses at other nouns; without a list nobody knows. */
static void warn_of_noun(const struct render *render)
{
    struct kiln_reuse_words *words = kiln_model_words_own(render->options.model_path);
    struct kiln_error unread;
    char noun[KILN_NOUN_MAX];
    if (words && kiln_reuse_unknown_noun(words, render->item.prompt, noun, &unread) == 0 && noun[0])
        fprintf(stderr,
                "kiln render: the model was not taught '%s' and makes a guess; README.md of the "
                "model lists what it knows\n",
                noun);
    kiln_reuse_words_free(words);
}

/* What --coarse auto means for the picture with the loaded model; says why not, if the card is not
 * of this model. */
static void decide_auto(struct render *render, const DiffusionZContext *context)
{
    DiffusionZBatch *b = &render->batch;
    struct kiln_mode *mode = &render->mode;
    struct kiln_model_card *card = &render->card;
    char sha256[KILN_FILE_HASH_MAX], why[KILN_CARD_WHY];
    if (!kiln_model_card_fits(card, diffusionz_model_hash(context),
                              kiln_dtype_names[diffusionz_dtype(context)], why))
        fprintf(stderr, "kiln render: %s\n", why);
    const bool hash =
        b->lora_count == 1 && kiln_file_hash(b->loras[0].path, KILN_LORA_BYTES_MAX, sha256);
    const struct kiln_card_picture picture = {
        .width = (uint32_t)b->width,
        .height = (uint32_t)b->height,
        .steps = (uint32_t)b->num_steps,
        .guidance = (double)b->guidance_scale,
        .lora_count = (uint32_t)b->lora_count,
        .lora_sha256 = hash ? sha256 : NULL,
        .lora_scale = b->lora_count ? (double)b->loras[0].weight : 0,
    };
    *mode = kiln_model_card_mode(card, mode, &picture);
    if (!kiln_batch_set_mode(b, mode, card->coarse_sizes, card->coarse_size_count))
        *mode = (struct kiln_mode){.kind = KILN_MODE_EXACT, .variety = mode->variety};
}

static int read_start(struct render *render, struct kiln_error *err)
{
    DiffusionZBatch *b = &render->batch;
    render->start = (struct kiln_verb_start){.width = b->width, .height = b->height};
    int code = kiln_verb_read_picture(render->init, &render->start, err);
    if (code == 0 && render->mask)
        code = kiln_verb_read_mask(render->mask, &render->start, err);
    b->width = render->start.width;
    b->height = render->start.height;
    render->item.start_rgb = render->start.rgb;
    return code;
}

/* --- rendering and writing -------------------------------------------------------------------- */

static int write_latent(const struct render *render, const DiffusionZOutput *output,
                        struct kiln_error *err)
{
    struct kiln_st_tensor tensor = {
        .name = "latent",
        .dtype = KILN_ST_F32,
        .ndim = 3,
        .shape = {output->latent_channels, output->latent_height, output->latent_width},
        .data = output->latent,
    };
    /* Before the VAE, as the sampler left it: what the parity checks compare. */
    tensor.size = (size_t)(tensor.shape[0] * tensor.shape[1] * tensor.shape[2]) * sizeof(float);
    uint8_t *data;
    size_t size;
    int code = kiln_st_encode(&tensor, 1, NULL, &data, &size, err);
    if (code != 0)
        return code;
    code = kiln_verb_write(render->latents, data, size, err);
    free(data);
    return code;
}

static int make_mask(struct render *render, const DiffusionZContext *context,
                     struct kiln_error *err)
{
    const struct kiln_picture_pixels *mask = &render->start.mask;
    const struct kiln_picture_size job = {(uint32_t)render->batch.width,
                                          (uint32_t)render->batch.height};
    int32_t channels, factor;
    diffusionz_latent_shape(context, &channels, &factor);
    int code = kiln_picture_mask(mask->rgb, mask->width, mask->height, job, (uint32_t)factor,
                                 &render->grid, err);
    render->item.start_mask = render->grid;
    return code;
}

/* Loads, renders, writes.  The picture is written before the latent: a caller that finds the latent
 * file finds the picture too. */
static int render(struct render *render, struct kiln_error *err)
{
    DiffusionZContext *context = NULL;
    DiffusionZOutput output = {0};
    DiffusionZTimes times = {0};
    int code = diffusionz_open(&render->options, &context);
    if (code == 0 && render->mask && make_mask(render, context, err)) {
        diffusionz_free(context);
        return err->code;
    }
    if (code == 0 && render->mode.kind == KILN_MODE_COARSE_AUTO)
        decide_auto(render, context);
    code = code ? code : diffusionz_run_batch(context, &render->batch, &output, &times);
    if (code != 0)
        code = kiln_fail(err, code, "%s", diffusionz_last_error());
    else if (output.error_code != 0)
        code = kiln_fail(err, output.error_code, "%s",
                         output.error_msg ? output.error_msg : "the picture failed");
    code = code ? code
                : kiln_verb_write_picture(render->out, output.rgb, render->batch.width,
                                          render->batch.height, render->lossless, err);
    if (code == 0 && render->latents)
        code = write_latent(render, &output, err);
    if (code == 0 && render->json) {
        char mode[KILN_MODE_MAX];
        kiln_mode_text(&render->mode, mode);
        printf("{\"width\": %d, \"height\": %d, \"steps\": %d, \"mode\": \"%s\", \"seed\": %" PRIu64
               ", \"text_ms\": %.1f, \"denoise_ms\": %.1f, \"decode_ms\": %.1f}\n",
               render->batch.width, render->batch.height, render->batch.num_steps,
               kiln_mode_shown(mode), render->item.seed, times.text_ms, times.denoise_ms,
               times.decode_ms);
        if (fflush(stdout) != 0 || ferror(stdout))
            code = kiln_fail(err, KILN_IO, "writing about the picture: %s", strerror(errno));
    }
    diffusionz_release_outputs(&output, 1);
    diffusionz_free(context);
    return code;
}

int kiln_verb_render(int argc, char **argv)
{
    struct render r = {
        .options = {.device_id = -1},
        .batch = {.item_count = 1},
        .coarse_sigma = -1,
        .strength = -1,
        .start_sigma = -1,
    };
    double guidance = 0;
    int loras = 0;
    bool help;
    struct kiln_error err;
    const struct kiln_verb_option table[] = {
        {"model", kiln_take_text, .to = &r.options.model_path},
        {"prompt", kiln_take_prompt, .to = &r.item.prompt},
        {"out", kiln_take_text, .to = &r.out},
        {"size", kiln_take_text, .to = &r.names.size},
        {"style", kiln_take_text, .to = &r.names.style},
        {"styles", kiln_take_text, .to = &r.names.styles},
        {"lora-dir", kiln_take_text, .to = &r.names.lora_dir},
        {"allow-empty", NULL, .to = &r.allow_empty},
        {"width", kiln_take_side, .to = &r.batch.width},
        {"height", kiln_take_side, .to = &r.batch.height},
        {"steps", kiln_take_small, .to = &r.batch.num_steps, KILN_STEPS_MIN, KILN_STEPS_MAX},
        {"coarse", kiln_take_coarse, .to = &r.mode, 0, 1},
        {"coarse-sigma", kiln_take_number, .to = &r.coarse_sigma, 0, 1},
        {"init-image", kiln_take_text, .to = &r.init},
        {"init", kiln_take_text, .to = &r.init},
        {"init-mask", kiln_take_text, .to = &r.mask},
        {"mask", kiln_take_text, .to = &r.mask},
        {"strength", kiln_take_number, .to = &r.strength, 0, 1},
        {"start-sigma", kiln_take_number, .to = &r.start_sigma, 0, 1},
        {"variety", kiln_take_number, .to = &r.item.variety, 0, 1},
        {"seed", kiln_take_whole, .to = &r.item.seed, 0, UINT64_MAX},
        {"guidance", kiln_take_number, .to = &guidance, 0, (uint64_t)KILN_GUIDANCE_MAX},
        {"negative-prompt", kiln_take_prompt, .to = &r.item.negative_prompt},
        {"negative", kiln_take_prompt, .to = &r.item.negative_prompt},
        {"lora", kiln_take_lora, .to = r.loras, .list = &loras, .most = KILN_LORAS_MAX},
        {"loras", kiln_take_loras, .to = r.loras, .list = &loras, .most = KILN_LORAS_MAX},
        {"device", kiln_take_device, .to = &r.options.device_id},
        {"dtype", kiln_take_dtype, .to = &r.options.dtype},
        {"threads", kiln_take_small, .to = &r.options.threads, 0, KILN_THREADS_MAX},
        {"lossless", NULL, .to = &r.lossless},
        {"latent", kiln_take_text, .to = &r.latents},
        {"latents", kiln_take_text, .to = &r.latents},
        {"json", NULL, .to = &r.json},
        {0},
    };
    int code = kiln_verb_options("render", argc, argv, table, &help, &err);
    if (code == 0 && help) {
        fputs(usage, stdout);
        return EX_OK;
    }
    r.batch.items = &r.item;
    r.batch.loras = r.loras;
    r.batch.lora_count = loras;
    r.batch.guidance_scale = (float)guidance;
    code = code ? code : check_complete(&r, &err);
    code = code ? code : read_names(&r, &err);
    bool mistaken = code != 0 && code != KILN_NOT_FOUND; /* on the command line */
    code = code ? code : read_card(&r, &err);
    if (code == 0) {
        code = check_start(&r, &err);
        mistaken = code != 0;
    }
    if (code == 0) {
        code = set_mode(&r, &err);
        if (code == 0)
            code = kiln_verb_may_write("out", r.out, &err);
        if (code == 0 && r.latents)
            code = kiln_verb_may_write("latents", r.latents, &err);
        mistaken = code == KILN_BAD_INPUT;
    }
    if (code == 0 && r.init)
        code = read_start(&r, &err);
    if (code == 0) {
        warn_of_size(&r);
        warn_of_variety(&r);
        warn_of_guidance(&r);
        warn_of_noun(&r);
    }
    code = code ? code : render(&r, &err);
    kiln_verb_names_release(&r.names);
    free(r.start.rgb);
    free(r.start.mask.rgb);
    free(r.grid);
    if (code == 0)
        return EX_OK;
    const int status = kiln_verb_fail("render", &err);
    return mistaken ? EX_USAGE : status;
}
