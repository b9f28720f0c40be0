/* rated.c - see rated.h. */
#include "scheduler/gallery/parts/rated.h"

#include <inttypes.h>
#include <string.h>

#include "scheduler/gallery/parts/html.h"

/* "a classifier (vit, 0.93)" */
static void add_source(struct kiln_text *out, const char *source, double score)
{
    const char *name = strchr(source, ':');
    name = name ? name + 1 : source;
    if (strncmp(source, "person:", 7) == 0) {
        kiln_text_puts(out, "a person");
    } else if (strncmp(source, "rule:", 5) == 0) {
        kiln_text_puts(out, "a word of the prompt (rule:");
        kiln_html(out, name);
        kiln_text_puts(out, ")");
    } else {
        kiln_text_puts(out, "a classifier (");
        kiln_html(out, name);
        kiln_text_printf(out, ", %.2f)", score);
    }
}

void kiln_gallery_rated(struct kiln_text *out, const struct kiln_gallery_app *app, int level,
                        const char *source, double score)
{
    if (level < 0 || level >= KILN_SAFETY_LEVELS) {
        kiln_text_puts(out, app->show_unchecked ? "not checked" : "hidden: not checked");
        return;
    }
    bool hidden = level > app->level_max;
    kiln_text_puts(out, hidden ? "hidden" : kiln_safety_level_names[level]);
    if (source) {
        kiln_text_puts(out, hidden ? " by " : ", by ");
        add_source(out, source, score);
    }
    if (hidden)
        kiln_text_printf(out, ": %s", kiln_safety_level_names[level]);
}

static void add_hidden(struct kiln_text *out, const char *name, const char *value)
{
    if (!value)
        return;
    kiln_text_printf(out, "<input type=\"hidden\" name=\"%s\" value=\"", name);
    kiln_html_attr(out, value);
    kiln_text_puts(out, "\">");
}

void kiln_gallery_verdict_form(struct kiln_text *out, uint64_t job, int level, const char *list,
                               const char *after)
{
    static const struct {
        const char *label, *key;
    } buttons[KILN_SAFETY_LEVELS] = {
        {"Clear", "s"}, {"Unsure", ""}, {"Mature", ""}, {"Explicit", "h"}};
    kiln_text_printf(out,
                     "<form class=\"verdict\" action=\"/verdict\" method=\"post\">"
                     "<input type=\"hidden\" name=\"job\" value=\"%" PRIu64 "\">",
                     job);
    add_hidden(out, "list", list);
    add_hidden(out, "after", after);
    for (int i = 0; i < KILN_SAFETY_LEVELS; i++)
        kiln_text_printf(out, "<button name=\"level\" value=\"%s\" data-key=\"%s\"%s>%s</button>",
                         kiln_safety_level_names[i], buttons[i].key,
                         i == level ? " aria-pressed=\"true\"" : "", buttons[i].label);
    kiln_text_puts(out, "</form>");
}
