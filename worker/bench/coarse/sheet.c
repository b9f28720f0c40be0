/* sheet.c - `kiln bench coarse --sheet`: a page with the pictures of each run side by side.
 *
 * One file without requests to anything else: the pictures are in it.  It is written beside its
 * place and renamed when it is complete.  The fixed parts are the files of page/, embedded by
 * scripts/embed.sh.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "pipeline/bench/detail.h"
#include "schemas/embedded.h"
#include "schemas/text/html.h"
#include "schemas/text/utf8.h"
#include "storage/formats/pictures/webp.h"
#include "storage/formats/replace.h"
#include "worker/bench/coarse/coarse.h"
#include "worker/engine/renderer.h"

#define PROMPTS_MAX 256 /* of a sheet: all its pictures are in memory at once */

enum page_file { HEAD, STYLE, SCRIPT };

struct prompt {
    char *text;
    uint64_t seed;
};

/* What a table's runs cost, over all pictures. */
struct total {
    double steps_s, decode_s, sharpness;
    long count;
};

struct sheet {
    struct kiln_coarse *bench;
    struct prompt prompts[PROMPTS_MAX];
    size_t count;
    char *text; /* the page so far */
    size_t len;
    FILE *out;
};

/* --- prompts ---------------------------------------------------------------------------------- */

/* A line of text, or a JSON object with "prompt" and perhaps "seed". */
static int read_line(struct sheet *sheet, char *line, struct kiln_error *err)
{
    struct prompt *prompt = &sheet->prompts[sheet->count];
    size_t bad;
    prompt->seed = sheet->count;
    line[strcspn(line, "\r\n")] = '\0';
    if (!line[0] || line[0] == '#')
        return 0;
    if (sheet->count == PROMPTS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "more than %d prompts; use --count", PROMPTS_MAX);
    if (!kiln_utf8_valid(line, strlen(line), &bad))
        return kiln_fail(err, KILN_BAD_INPUT, "not UTF-8 at byte %zu", bad);
    const char *text = line;
    json_error_t where;
    json_t *object = line[0] == '{' ? json_loads(line, JSON_REJECT_DUPLICATES, &where) : NULL;
    if (line[0] == '{') {
        const json_t *seed = json_object_get(object, "seed");
        text = json_string_value(json_object_get(object, "prompt"));
        if (json_is_integer(seed))
            prompt->seed = (uint64_t)json_integer_value(seed);
    }
    int code = text && text[0] && strlen(text) <= KILN_PROMPT_MAX
                   ? 0
                   : kiln_fail(err, KILN_BAD_INPUT, "expected a prompt of at most %d bytes",
                               KILN_PROMPT_MAX);
    if (code == 0 && !(prompt->text = strdup(text)))
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts");
    sheet->count += code == 0;
    json_decref(object);
    return code;
}

static int read_file(struct sheet *sheet, const char *path, struct kiln_error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return kiln_fail(err, errno == ENOENT ? KILN_NOT_FOUND : KILN_IO, "open %s: %s", path,
                         strerror(errno));
    char *line = NULL;
    size_t room = 0, number = 0;
    int code = 0;
    while (code == 0 && sheet->count < sheet->bench->options.count &&
           getline(&line, &room, file) >= 0) {
        number++;
        code = read_line(sheet, line, err);
    }
    if (code)
        code = kiln_fail_in(err, "%s:%zu", path, number);
    else if (ferror(file))
        code = kiln_fail(err, KILN_IO, "read %s: %s", path, strerror(errno));
    else if (sheet->count == 0)
        code = kiln_fail(err, KILN_BAD_INPUT, "%s holds no prompts", path);
    free(line);
    fclose(file);
    return code;
}

static int read_prompts(struct sheet *sheet, struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &sheet->bench->options;
    if (o->prompts)
        return read_file(sheet, o->prompts, err);
    for (; kiln_coarse_prompts[sheet->count] && sheet->count < o->count; sheet->count++) {
        struct prompt *prompt = &sheet->prompts[sheet->count];
        *prompt = (struct prompt){strdup(kiln_coarse_prompts[sheet->count]), sheet->count};
        if (!prompt->text)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the prompts");
    }
    return 0;
}

/* --- the page --------------------------------------------------------------------------------- */

static void put(FILE *out, enum page_file file)
{
    fwrite(kiln_embedded_sheet[file].text, 1, kiln_embedded_sheet[file].size, out);
}

static void escape(FILE *out, const char *text)
{
    char piece[KILN_HTML_PIECE];
    for (size_t len; (len = kiln_html_next(&text, piece)) > 0;)
        fwrite(piece, 1, len, out);
}

static void begin(struct sheet *sheet)
{
    const struct kiln_coarse *bench = sheet->bench;
    FILE *out = sheet->out;
    put(out, HEAD);
    fputs("<title>Coarse first: ", out);
    escape(out, diffusionz_model_name(bench->pictures.context));
    fputs("</title>\n<style>\n", out);
    put(out, STYLE);
    fputs("</style>\n</head>\n<body>\n<h1>Coarse first beside exact: ", out);
    escape(out, diffusionz_model_name(bench->pictures.context));
    fprintf(out, "</h1>\n<p class=\"dim\">%s, %s, %s &middot; <code>",
            diffusionz_model_hash(bench->pictures.context), bench->at.device_class, bench->at.date);
    escape(out, bench->options.command);
    fputs("</code></p>\n<p class=\"dim\">Cost: forwards of the full size. Seconds: steps and "
          "decode, without the text. Click a picture to compare it with the exact one.</p>\n",
          out);
}

static void end(struct sheet *sheet)
{
    fputs("<div id=\"view\"><img alt=\"\"><div></div></div>\n<script>\n", sheet->out);
    put(sheet->out, SCRIPT);
    fputs("</script>\n</body>\n</html>\n", sheet->out);
}

static int put_picture(FILE *out, const uint8_t *rgb, struct kiln_picture_size size,
                       struct kiln_error *err)
{
    static const struct kiln_webp_options options = {.quality = 90, .method = 4};
    uint8_t *webp;
    size_t bytes;
    int code = kiln_webp_encode(rgb, size.width, size.height, &options, &webp, &bytes, err);
    if (code)
        return code;
    char *text = malloc(bytes / 3 * 4 + 8);
    if (text) {
        EVP_EncodeBlock((unsigned char *)text, webp, (int)bytes);
        fprintf(out,
                "<img loading=\"lazy\" alt=\"\" width=\"%u\" height=\"%u\" "
                "src=\"data:image/webp;base64,%s\">",
                size.width, size.height, text);
    }
    free(text);
    free(webp);
    return text ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory for a picture");
}

/* One picture; the first of a run is rendered twice, because the first one warms up. */
static int put_run(struct sheet *sheet, const struct kiln_coarse_table *table, int run,
                   const struct prompt *prompt, uint64_t seed, struct total *total, FILE *out,
                   struct kiln_error *err)
{
    DiffusionZOutput output = {0};
    double steps_s = 0, decode_s = 0;
    char *text;
    if (asprintf(&text, "%s%s", prompt->text, table->suffix) < 0)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a prompt");
    int code = 0;
    for (int times = total->count == 0 ? 2 : 1; times > 0 && code == 0; times--) {
        DiffusionZItem item = {
            .prompt = text, .seed = seed, .variety = table->runs[run].mode.variety};
        diffusionz_release_outputs(&output, 1);
        output = (DiffusionZOutput){0};
        code = kiln_coarse_render(sheet->bench, table, &table->runs[run], &item, 1, &output,
                                  &steps_s, &decode_s, err);
    }
    fputs("<figure>", out);
    code = code ? code : put_picture(out, output.rgb, table->size, err);
    if (code == 0) {
        *total =
            (struct total){total->steps_s + steps_s, total->decode_s + decode_s,
                           total->sharpness + kiln_sharpness(output.rgb, (int)table->size.width,
                                                             (int)table->size.height),
                           total->count + 1};
        fprintf(out, "<figcaption><b>%s</b> cost %.2f, %.2f s</figcaption></figure>\n",
                table->runs[run].name, table->runs[run].cost, steps_s + decode_s);
    }
    diffusionz_release_outputs(&output, 1);
    free(text);
    return code;
}

static void put_totals(FILE *out, const struct kiln_coarse_table *table, const struct total *totals)
{
    fputs("<table><tr><th>run</th><th>cost</th><th>steps, s</th><th>faster</th><th>picture, "
          "s</th><th>sharpness of exact</th></tr>\n",
          out);
    for (int run = 0; run < table->run_count; run++) {
        const struct total *t = &totals[run];
        const double n = (double)t->count;
        fprintf(out,
                "<tr><td>%s</td><td>%.2f</td><td>%.3f</td><td>%.2f&times;</td><td>%.3f</td>"
                "<td>%.1f&nbsp;%%</td></tr>\n",
                table->runs[run].name, table->runs[run].cost, t->steps_s / n,
                totals[0].steps_s / t->steps_s, (t->steps_s + t->decode_s) / n,
                100 * t->sharpness / totals[0].sharpness);
    }
    fputs("</table>\n", out);
}

static int put_table(struct sheet *sheet, const struct kiln_coarse_table *table,
                     struct kiln_error *err)
{
    const struct kiln_coarse_options *o = &sheet->bench->options;
    struct total totals[KILN_COARSE_RUNS_MAX] = {0};
    char size[24], small[24], *body = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&body, &len); /* the totals come before it */
    if (!out)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the page");
    int code = 0;
    for (size_t i = 0; i < sheet->count && code == 0; i++)
        for (int k = 0; k < o->seeds && code == 0; k++) {
            const uint64_t seed = kiln_coarse_seed(sheet->prompts[i].seed, k);
            kiln_coarse_progress(table, i, sheet->count);
            fputs("<article><p dir=\"auto\">", out);
            escape(out, sheet->prompts[i].text);
            fprintf(out, " <span class=\"dim\">seed %llu</span></p>\n<div class=\"runs\">\n",
                    (unsigned long long)seed);
            for (int run = 0; run < table->run_count && code == 0; run++)
                code = put_run(sheet, table, run, &sheet->prompts[i], seed, &totals[run], out, err);
            fputs("</div></article>\n", out);
        }
    kiln_coarse_progress(table, 0, 0);
    if (fclose(out) != 0 && code == 0)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the page");
    kiln_coarse_size_text(table->size, size);
    kiln_coarse_size_text(table->small, small);
    fprintf(sheet->out, "<h2>%s, coarse from %s", size, small);
    if (table->smallest.width > 0) {
        kiln_coarse_size_text(table->smallest, small);
        fprintf(sheet->out, " and %s", small);
    }
    fprintf(sheet->out, ", %s", kiln_dtype_names[table->dtype]);
    if (table->lora >= 0) {
        fputs(", LoRA ", sheet->out);
        escape(sheet->out, sheet->bench->lora_name[table->lora]);
        fprintf(sheet->out, ":%g", (double)o->loras[table->lora].weight);
    }
    fputs("</h2>\n", sheet->out);
    if (code == 0) {
        put_totals(sheet->out, table, totals);
        fwrite(body, 1, len, sheet->out);
    }
    free(body);
    return code;
}

int kiln_coarse_sheet(struct kiln_coarse *bench, struct kiln_error *err)
{
    struct sheet *sheet = calloc(1, sizeof *sheet);
    if (!sheet)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the page");
    sheet->bench = bench;
    sheet->out = open_memstream(&sheet->text, &sheet->len);
    int code = sheet->out ? read_prompts(sheet, err)
                          : kiln_fail(err, KILN_NO_MEMORY, "no memory for the page");
    if (code == 0)
        begin(sheet);
    for (int i = 0; i < bench->table_count && code == 0; i++) {
        code = kiln_coarse_model(bench, bench->tables[i].dtype, err);
        code = code ? code : put_table(sheet, &bench->tables[i], err);
    }
    if (code == 0)
        end(sheet);
    if (sheet->out && fclose(sheet->out) != 0 && code == 0)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for the page");
    if (code == 0)
        code = kiln_replace_named(bench->options.sheet, sheet->text, sheet->len, 0644, err);
    for (size_t i = 0; i < sheet->count; i++)
        free(sheet->prompts[i].text);
    free(sheet->text);
    free(sheet);
    return code;
}
