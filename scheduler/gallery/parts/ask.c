/* ask.c - see ask.h. */
#include "scheduler/gallery/parts/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/gallery/parts/html.h"
#include "schemas/words/query.h"

#define DAY_MS (24 * 3600 * 1000LL)

/* The filters in the order of the form. */
static const struct {
    const char *name, *label;
} filters[] = {
    {"size", "Size"},        {"aspect", "Shape"},      {"lora", "LoRA"},     {"style", "Style"},
    {"model", "Model"},      {"batch", "Batch"},       {"tenant", "Tenant"}, {"from", "From"},
    {"to", "Until"},         {"mode", "Made"},         {"safety", "Rated"},  {"starred", "Starred"},
    {"same", "Same prompt"}, {"variants", "Variants"}, {"vote", "Vote"},
};
#define FILTERS (sizeof filters / sizeof *filters)

static const char *const aspects[] = {"any", "square", "wide", "tall", NULL};
static const char *const votes[] = {"down", "any", "up", NULL}; /* -1, 0, 1 */
static const char *const modes[] = {"any", "exact", "coarse", "started", NULL};

bool kiln_gallery_is_filter(const char *text, size_t len)
{
    for (size_t i = 0; i < FILTERS; i++)
        if (strlen(filters[i].name) == len && strncmp(filters[i].name, text, len) == 0)
            return true;
    return false;
}

void kiln_gallery_filter_names(char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < FILTERS && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s",
                                i == 0             ? ""
                                : i == FILTERS - 1 ? " and "
                                                   : ", ",
                                filters[i].name);
}

static bool is_one(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

int kiln_gallery_ask_unknown(const char *name, struct kiln_error *err)
{
    return kiln_fail(err, KILN_BAD_INPUT,
                     "unknown argument \"%.40s\"; /v1/openapi.json lists the arguments of each "
                     "address",
                     name);
}

int kiln_gallery_ask_only(const struct kiln_web_args *args, bool search, const char *const *others,
                          struct kiln_error *err)
{
    for (size_t i = 0; i < args->count; i++) {
        const char *name = args->at[i].name;
        const bool asks = strcmp(name, "q") == 0 || kiln_gallery_is_filter(name, strlen(name));
        if (!(search && asks) && !is_one(others, name))
            return kiln_gallery_ask_unknown(name, err);
    }
    return 0;
}

static int find_word(const char *const *words, const char *text)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

bool kiln_gallery_day_parse(const char *text, int64_t *ret_ms)
{
    int year, month, day, end = 0;
    struct tm tm = {0}, back;
    if (sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &end) != 3 || end != 10 || text[end] ||
        strspn(text, "0123456789-") != 10)
        return false;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    tm.tm_mday = day;
    time_t at = timegm(&tm);
    gmtime_r(&at, &back);
    *ret_ms = (int64_t)at * 1000;
    return back.tm_mday == day && back.tm_mon == month - 1 && year >= 1970;
}

static int refuse(struct kiln_error *err, const char *name, const char *value, const char *allowed)
{
    return kiln_fail(err, KILN_BAD_INPUT, "%s is \"%.60s\"; it must be %s", name, value, allowed);
}

static int read_choices(const struct kiln_web_args *args, struct kiln_gallery_filter *filter,
                        struct kiln_error *err)
{
    const char *aspect = kiln_web_arg(args, "aspect"), *mode = kiln_web_arg(args, "mode");
    const char *safety = kiln_web_arg(args, "safety"), *variants = kiln_web_arg(args, "variants");
    const char *vote = kiln_web_arg(args, "vote");
    filter->stacked = variants && strcmp(variants, "stacked") == 0;
    if (variants && !filter->stacked && strcmp(variants, "all") != 0)
        return refuse(err, "variants", variants, "stacked or all");
    int found = aspect ? find_word(aspects, aspect) : 0;
    if (found < 0)
        return refuse(err, "aspect", aspect, "square, wide or tall");
    filter->aspect = (enum kiln_gallery_aspect)found;
    found = mode ? find_word(modes, mode) : 0;
    if (found < 0)
        return refuse(err, "mode", mode, "exact, coarse or started");
    filter->mode = (enum kiln_gallery_mode)found;
    found = vote ? find_word(votes, vote) : 1;
    if (found < 0)
        return refuse(err, "vote", vote, "up or down");
    filter->vote = found - 1;
    if (!safety)
        return 0;
    found = find_word(kiln_safety_level_names, safety);
    if (found < 0)
        return refuse(err, "safety", safety, "clear, unsure, mature or explicit");
    filter->level_max = found < filter->level_max ? found : filter->level_max;
    filter->show_unchecked = false;
    return 0;
}

static int read_numbers(const struct kiln_web_args *args, struct kiln_gallery_filter *filter,
                        struct kiln_error *err)
{
    const char *size = kiln_web_arg(args, "size"), *from = kiln_web_arg(args, "from");
    const char *to = kiln_web_arg(args, "to"), *same = kiln_web_arg(args, "same");
    int end = 0;
    if (size && (sscanf(size, "%5ux%5u%n", &filter->width, &filter->height, &end) != 2 ||
                 size[end] || filter->width == 0 || filter->height == 0))
        return refuse(err, "size", size, "WIDTHxHEIGHT, such as 1024x768");
    if (from && !kiln_gallery_day_parse(from, &filter->from_ms))
        return refuse(err, "from", from, "a day, such as 2026-11-21");
    if (to && !kiln_gallery_day_parse(to, &filter->to_ms))
        return refuse(err, "to", to, "a day, such as 2026-11-21");
    filter->to_ms += to ? DAY_MS : 0; /* that day is part of it */
    if (same && (strlen(same) != 64 || strspn(same, "0123456789abcdef") != 64))
        return refuse(err, "same", same, "the hash of a prompt, 64 hexadecimal digits");
    filter->prompt_hash = same;
    return 0;
}

static int read_names(const struct kiln_web_args *args, struct kiln_gallery_filter *filter,
                      struct kiln_error *err)
{
    const struct {
        const char *name, **to;
    } names[] = {{"batch", &filter->batch},
                 {"tenant", &filter->tenant},
                 {"model", &filter->model},
                 {"lora", &filter->lora},
                 {"style", &filter->style}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *names[i].to = kiln_web_arg(args, names[i].name);
        if (*names[i].to && strlen(*names[i].to) > KILN_ASK_VALUE_MAX)
            return refuse(err, names[i].name, *names[i].to, "at most 256 bytes long");
    }
    const char *starred = kiln_web_arg(args, "starred");
    if (starred && strcmp(starred, "1") != 0)
        return refuse(err, "starred", starred, "1");
    filter->starred = starred != NULL;
    return 0;
}

/* cursor: NULL or "" for the start of the list. */
static int read_from(const struct kiln_gallery_app *app, const struct kiln_web_args *args,
                     const char *cursor, struct kiln_gallery_ask *ret, struct kiln_error *err)
{
    *ret = (struct kiln_gallery_ask){
        .query = {.filter = kiln_gallery_all(app), .rows_max = KILN_GALLERY_TILES}, .args = args};
    const char *words = kiln_web_arg(args, "q"), *sort = kiln_web_arg(args, "sort");
    int rc = read_choices(args, &ret->query.filter, err);
    rc = rc ? rc : read_numbers(args, &ret->query.filter, err);
    rc = rc ? rc : read_names(args, &ret->query.filter, err);
    if (rc)
        return rc;
    if (words && strlen(words) > KILN_ASK_WORDS_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "a search has at most %d bytes, this one has %zu",
                         KILN_ASK_WORDS_MAX, strlen(words));
    if (words && words[strspn(words, " \t\r\n")])
        ret->query.words = words;
    if (sort && *sort && strcmp(sort, "relevance") != 0 && strcmp(sort, "newest") != 0)
        return refuse(err, "sort", sort, "newest or relevance");
    /* A list that began without the search by meaning goes on without it, and so does one that has
     * more pictures with its words. */
    ret->query.cursor = cursor;
    if (ret->query.words && !(sort && sort[0] == 'n') &&
        !(cursor && *cursor && *cursor != KILN_MIXED_CURSOR) &&
        !kiln_query_is_exact(ret->query.words))
        ret->mixed = kiln_keeper_mixed(app->keeper);
    if (ret->mixed || (sort && sort[0] == 'r' && ret->query.words))
        ret->query.order = KILN_GALLERY_RELEVANCE;
    return 0;
}

int kiln_gallery_ask_read(const struct kiln_gallery_app *app, const struct kiln_web_args *args,
                          struct kiln_gallery_ask *ret, struct kiln_error *err)
{
    return read_from(app, args, NULL, ret, err);
}

int kiln_gallery_ask_read_page(struct kiln_web_visit *visit, struct kiln_gallery_ask *ret,
                               struct kiln_error *err)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    const char *cursor = kiln_web_arg(visit->args, "c");
    int rc = read_from(app, visit->args, cursor, ret, err);
    if (rc || !ret->query.words || !cursor || *cursor != KILN_MIXED_CURSOR || ret->mixed ||
        !kiln_keeper_waits(app->keeper))
        return rc;
    visit->reply.own_words = true;
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "the gallery has been started again and is preparing this search; try again "
                     "in a few seconds");
}

int kiln_gallery_ask_list(const struct kiln_gallery_ask *ask, struct kiln_ledger *session,
                          kiln_each_tile *each, void *arg, struct kiln_gallery_page *ret,
                          struct kiln_error *err)
{
    return ask->mixed ? kiln_mixed_list(ask->mixed, session, &ask->query, each, arg, ret, err)
                      : kiln_gallery_list(session, &ask->query, each, arg, ret, err);
}

int kiln_gallery_ask_newest(const struct kiln_gallery_ask *ask, struct kiln_ledger *session,
                            kiln_each_tile *each, void *arg, struct kiln_error *err)
{
    struct kiln_gallery_query query = ask->query;
    struct kiln_gallery_page page;
    if (ask->mixed)
        return kiln_mixed_newest(ask->mixed, session, &query, each, arg, err);
    query.order = KILN_GALLERY_NEWEST;
    return kiln_gallery_list(session, &query, each, arg, &page, err);
}

void kiln_gallery_ask_stack(struct kiln_gallery_ask *ask)
{
    struct kiln_gallery_filter *filter = &ask->query.filter;
    if (!kiln_web_arg(ask->args, "variants"))
        filter->stacked = !filter->prompt_hash && !filter->batch && !filter->starred;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void add_pair(struct kiln_text *out, const char *name, const char *value, const char *and)
{
    kiln_text_printf(out, "%s%s=", out->len ? and : "", name);
    kiln_url(out, value);
}

/* without: names, ended by NULL. */
static void write_others(const struct kiln_gallery_ask *ask, const char *const *without,
                         const char *and, struct kiln_text *out)
{
    struct kiln_text own = {0};
    if (ask->query.words && !is_one(without, "q"))
        add_pair(&own, "q", ask->query.words, and);
    for (size_t i = 0; i < FILTERS; i++) {
        const char *value = kiln_web_arg(ask->args, filters[i].name);
        if (value && !is_one(without, filters[i].name))
            add_pair(&own, filters[i].name, value, and);
    }
    const char *sort = kiln_web_arg(ask->args, "sort");
    /* By words and meaning the best comes first without being asked for; such a list goes on as one
     * of the newest. */
    if (ask->query.words && sort && *sort && !ask->mixed && !is_one(without, "sort"))
        add_pair(&own, "sort", sort, and);
    if (own.at)
        kiln_text_add(out, own.at, own.len);
    out->failed = out->failed || own.failed;
    kiln_text_release(&own);
}

void kiln_gallery_ask_write(const struct kiln_gallery_ask *ask, const char *without,
                            const char *and, struct kiln_text *out)
{
    write_others(ask, (const char *const[]){without, NULL}, and, out);
}

void kiln_gallery_ask_write_days(const struct kiln_gallery_ask *ask, const char *from,
                                 const char *to, const char *and, struct kiln_text *out)
{
    const size_t before = out->len;
    write_others(ask, (const char *const[]){"from", "to", NULL}, and, out);
    kiln_text_puts(out, out->len > before ? and : "");
    if (from)
        kiln_text_printf(out, "from=%s%s", from, and);
    kiln_text_printf(out, "to=%s", to);
}

int kiln_gallery_ask_filters(const struct kiln_gallery_ask *ask)
{
    int count = 0;
    for (size_t i = 0; i < FILTERS; i++)
        count += kiln_web_arg(ask->args, filters[i].name) != NULL;
    return count;
}

void kiln_gallery_ask_chips(const struct kiln_gallery_ask *ask, struct kiln_text *out)
{
    if (kiln_gallery_ask_filters(ask) == 0)
        return;
    kiln_text_puts(out, "<ul class=\"chips\" aria-label=\"Filters\">");
    for (size_t i = 0; i < FILTERS; i++) {
        const char *value = kiln_web_arg(ask->args, filters[i].name);
        if (!value)
            continue;
        bool flag = strcmp(filters[i].name, "starred") == 0 || strcmp(filters[i].name, "same") == 0;
        kiln_text_puts(out, "<li><a href=\"/?");
        kiln_gallery_ask_write(ask, filters[i].name, "&amp;", out);
        kiln_text_printf(out, "\"><span class=\"away\">Remove the filter </span>%s",
                         filters[i].label);
        if (!flag) {
            kiln_text_puts(out, ": <bdi>");
            kiln_html(out, value);
            kiln_text_puts(out, "</bdi>");
        }
        kiln_text_puts(out, " <span aria-hidden=\"true\">\xc3\x97</span></a></li>");
    }
    kiln_text_puts(out, "</ul>");
}

static void add_input(const struct kiln_gallery_ask *ask, const char *name, const char *label,
                      const char *type, struct kiln_text *out)
{
    const char *value = kiln_web_arg(ask->args, name);
    kiln_text_printf(out,
                     "<p><label for=\"f-%s\">%s</label><input id=\"f-%s\" name=\"%s\" %s value=\"",
                     name, label, name, name, type);
    kiln_html_attr(out, value ? value : "");
    kiln_text_puts(out, "\"></p>");
}

/* choices: values, each with the words that people see, ended by NULL. */
static void add_choice(const char *name, const char *label, const char *value,
                       const char *const (*choices)[2], struct kiln_text *out)
{
    kiln_text_printf(out, "<p><label for=\"f-%s\">%s</label><select id=\"f-%s\" name=\"%s\">", name,
                     label, name, name);
    for (; (*choices)[0]; choices++) {
        bool chosen = value && strcmp(value, (*choices)[0]) == 0;
        kiln_text_printf(out, "<option value=\"%s\"%s>%s</option>", (*choices)[0],
                         chosen ? " selected" : "", (*choices)[1]);
    }
    kiln_text_puts(out, "</select></p>");
}

static void add_select(const struct kiln_gallery_ask *ask, const char *name, const char *label,
                       const char *const (*choices)[2], struct kiln_text *out)
{
    add_choice(name, label, kiln_web_arg(ask->args, name), choices, out);
}

void kiln_gallery_ask_form(const struct kiln_gallery_ask *ask, const struct kiln_gallery_app *app,
                           struct kiln_text *out)
{
    static const char *const shapes[][2] = {
        {"", "any"}, {"square", "square"}, {"wide", "wide"}, {"tall", "tall"}, {NULL, NULL}};
    static const char *const made[][2] = {{"", "any way"},
                                          {"exact", "exact"},
                                          {"coarse", "coarse first"},
                                          {"started", "from a picture"},
                                          {NULL, NULL}};
    static const char *const stacks[][2] = {{"", "as it suits the list"},
                                            {"stacked", "one tile a prompt"},
                                            {"all", "each a tile"},
                                            {NULL, NULL}};
    static const char *const orders[][2] = {
        {"newest", "newest first"}, {"relevance", "best match first"}, {NULL, NULL}};
    static const char *const rated[][2] = {
        {"", "all that is shown"},      {"clear", "clear"},
        {"unsure", "up to unsure"},     {"mature", "up to mature"},
        {"explicit", "up to explicit"}, {NULL, NULL}};
    static const char *const voted[][2] = {{"", "any"},
                                           {"up", "+1"},
                                           {"down", "\xe2\x88\x92"
                                                    "1"},
                                           {NULL, NULL}};
    int set = kiln_gallery_ask_filters(ask);
    kiln_text_puts(out, "<details class=\"filters\"><summary>Filters");
    if (set)
        kiln_text_printf(out, " <span class=\"badge\">%d<span class=\"away\"> set</span></span>",
                         set);
    kiln_text_puts(out, "</summary><form action=\"/\" method=\"get\"><div class=\"fields\">");
    add_input(ask, "q", "Words", "type=\"search\" maxlength=\"256\" dir=\"auto\"", out);
    if (ask->query.words)
        add_choice("sort", "Order",
                   ask->query.order == KILN_GALLERY_RELEVANCE ? "relevance" : "newest", orders,
                   out);
    add_input(ask, "size", "Size",
              "placeholder=\"1024x768\" inputmode=\"numeric\" pattern=\"[0-9]+x[0-9]+\"", out);
    add_select(ask, "aspect", "Shape", shapes, out);
    add_input(ask, "lora", "LoRA", "maxlength=\"64\" list=\"names-lora\"", out);
    add_input(ask, "style", "Style", "maxlength=\"64\" list=\"names-style\"", out);
    add_input(ask, "model", "Model", "maxlength=\"64\" list=\"names-model\"", out);
    add_input(ask, "batch", "Batch", "maxlength=\"128\" list=\"names-batch\"", out);
    add_input(ask, "tenant", "Tenant", "maxlength=\"64\" list=\"names-tenant\"", out);
    add_input(ask, "from", "From", "type=\"date\"", out);
    add_input(ask, "to", "Until", "type=\"date\"", out);
    add_select(ask, "mode", "Made", made, out);
    add_select(ask, "variants", "Variants", stacks, out);
    if (app->level_max > KILN_SAFETY_CLEAR)
        add_select(ask, "safety", "Rated", rated, out);
    add_select(ask, "vote", "Vote", voted, out);
    kiln_text_printf(out,
                     "<p class=\"check\"><input id=\"f-starred\" type=\"checkbox\" "
                     "name=\"starred\" value=\"1\"%s><label for=\"f-starred\">Starred only</label>"
                     "</p></div><div class=\"row\"><button>Show</button>"
                     "<a class=\"button quiet\" href=\"/\">Clear all</a></div></form></details>",
                     ask->query.filter.starred ? " checked" : "");
}
