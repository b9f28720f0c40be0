/* layout.c - see layout.h. */
#include "scheduler/gallery/parts/layout.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/parts/html.h"

#define HTML_TYPE "text/html; charset=utf-8"
#define JSON_TYPE "application/json"

static const struct {
    const char *name, *path, *label;
} menu[] = {
    {"newest", "/", "Newest"},          {"starred", "/?starred=1", "Starred"},
    {"batches", "/batches", "Batches"}, {"fleet", "/fleet", "Fleet"},
    {"review", "/review", "Review"}, /* the last: only where people review */
};

static void add_bar(struct kiln_web_visit *visit, const struct kiln_gallery_page_head *head)
{
    struct kiln_text *out = &visit->reply.body;
    kiln_text_puts(out, "<header class=\"bar\"><a class=\"brand\" href=\"/\">Kiln</a>"
                        "<form class=\"search\" role=\"search\" action=\"/\" method=\"get\">"
                        "<label class=\"away\" for=\"q\">Search the prompts</label>"
                        "<input id=\"q\" name=\"q\" type=\"search\" maxlength=\"256\" "
                        "autocomplete=\"off\" spellcheck=\"false\" dir=\"auto\" "
                        "placeholder=\"Search the prompts\" value=\"");
    kiln_html_attr(out, head->words ? head->words : "");
    kiln_text_puts(out, "\"><button>Search</button></form><nav aria-label=\"Gallery\"><ul>");
    size_t entries = sizeof menu / sizeof *menu - !kiln_gallery_app(visit)->review;
    for (size_t i = 0; i < entries; i++) {
        bool here = head->here && strcmp(head->here, menu[i].name) == 0;
        kiln_text_printf(out, "<li><a href=\"%s\"%s>%s</a></li>", menu[i].path,
                         here ? " aria-current=\"page\"" : "", menu[i].label);
    }
    kiln_text_puts(out, "</ul></nav>");
    if (visit->by_cookie)
        kiln_text_puts(out, "<form class=\"leave\" action=\"/sign-out\" method=\"post\">"
                            "<button class=\"quiet\">Sign out</button></form>");
    kiln_text_puts(out, "</header>");
}

void kiln_gallery_begin(struct kiln_web_visit *visit, const struct kiln_gallery_page_head *head)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    struct kiln_text *out = &visit->reply.body;
    visit->reply.type = HTML_TYPE;
    kiln_text_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
                        "<meta name=\"color-scheme\" content=\"light dark\"><title>");
    kiln_html(out, head->title);
    kiln_text_puts(out, " \xc2\xb7 Kiln</title>");
    kiln_text_printf(out, "<link rel=\"stylesheet\" href=\"%s\">",
                     app->assets[KILN_ASSET_STYLE].path);
    kiln_text_printf(out, "<link rel=\"icon\" type=\"image/svg+xml\" href=\"%s\">",
                     app->assets[KILN_ASSET_ICON].path);
    if (head->feed)
        kiln_text_printf(out,
                         "<link rel=\"alternate\" type=\"application/rss+xml\" "
                         "title=\"%s\" href=\"/feed.xml%s%s\">",
                         head->words     ? "Pictures of this search"
                         : head->feed[0] ? "Newest pictures of this list"
                                         : "Newest pictures",
                         head->feed[0] ? "?" : "", head->feed);
    kiln_text_printf(out, "<script src=\"%s\" defer></script></head><body>",
                     app->assets[KILN_ASSET_SCRIPT].path);
    kiln_text_puts(out, "<a class=\"skip\" href=\"#main\">Skip to the content</a>");
    if (!head->bare)
        add_bar(visit, head);
    kiln_text_printf(out, "<main id=\"main\" tabindex=\"-1\"%s>",
                     head->wide ? " class=\"wide\"" : "");
}

/* What is hidden is said on every page: a gallery that hides must not look complete. */
static void add_foot(struct kiln_web_visit *visit)
{
    const struct kiln_gallery_app *app = kiln_gallery_app(visit);
    struct kiln_text *out = &visit->reply.body;
    kiln_text_puts(out, "<footer class=\"foot\"><p>");
    if (app->level_max < KILN_SAFETY_LEVELS - 1)
        kiln_text_printf(out, "Pictures rated above \xe2\x80\x9c%s\xe2\x80\x9d are hidden. ",
                         kiln_safety_level_names[app->level_max]);
    kiln_text_puts(out, app->show_unchecked ? "Pictures that were not checked are shown."
                                            : "Pictures that were not checked are hidden.");
    kiln_text_puts(out, " <a href=\"/help\">Keys and search</a></p></footer>");
}

void kiln_gallery_end(struct kiln_web_visit *visit)
{
    struct kiln_text *out = &visit->reply.body;
    kiln_text_puts(out, "</main>");
    if (visit->signed_in)
        add_foot(visit);
    kiln_text_puts(out, "</body></html>\n");
}

/* --- errors ----------------------------------------------------------------------------------- */

static const char *title_of(unsigned status)
{
    switch (status) {
    case 400:
        return "This address cannot be read";
    case 401:
        return "Sign in";
    case 403:
        return "Not allowed";
    case 404:
        return "Nothing here";
    case 405:
        return "Not possible here";
    case 413:
    case 414:
    case 415:
        return "This request cannot be read";
    case 421:
        return "Unknown name";
    case 503:
        return "Not available at the moment";
    default:
        return "Something went wrong";
    }
}

/* What people can do about it. */
static const char *advice_of(const struct kiln_web_reply *reply, int code)
{
    if (reply->own_words)
        return NULL;
    if (reply->status == 503 && code == KILN_FULL)
        return "Too many people are searching at this moment. Try again in a few seconds.";
    if (reply->status == 503)
        return "The ledger does not answer. Rendering is not affected by this page; "
               "<code>kiln doctor</code> says what is wrong.";
    if (reply->status == 401)
        return "<a href=\"/sign-in\">Sign in</a> to see this gallery.";
    return NULL;
}

/* What a client may know: the details of servers are in the log alone. */
static const char *words_of(const struct kiln_web_reply *reply, const struct kiln_error *err)
{
    if (reply->own_words || reply->status < 500)
        return err->text;
    if (reply->status == 503)
        return err->code == KILN_FULL ? "too many requests are waiting for the ledger"
                                      : "the ledger does not answer";
    return "the gallery could not make this page; its log says why";
}

static void fail_as_json(struct kiln_web_visit *visit, const struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    const char *words = words_of(&visit->reply, err);
    visit->reply.type = JSON_TYPE;
    kiln_text_puts(out, "{\"error\":");
    kiln_text_json(out, kiln_code_name(err->code), strlen(kiln_code_name(err->code)));
    kiln_text_puts(out, ",\"message\":");
    kiln_text_json(out, words, strlen(words));
    kiln_text_puts(out, "}\n");
}

void kiln_gallery_fail(struct kiln_web_visit *visit, const struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    visit->reply.cache = "no-store";
    if (visit->wants_json) {
        fail_as_json(visit, err);
        return;
    }
    const char *title = title_of(visit->reply.status);
    const char *advice = advice_of(&visit->reply, err->code);
    kiln_gallery_begin(visit,
                       &(struct kiln_gallery_page_head){.title = title, .bare = !visit->signed_in});
    kiln_text_printf(out, "<div class=\"say\"><h1>%s</h1>", title);
    if (advice)
        kiln_text_printf(out, "<p>%s</p>", advice);
    if (!advice) {
        char words[KILN_ERROR_TEXT_MAX];
        snprintf(words, sizeof words, "%s", words_of(&visit->reply, err));
        if (words[0] >= 'a' && words[0] <= 'z')
            words[0] = (char)(words[0] - 'a' + 'A');
        kiln_text_puts(out, "<p>");
        kiln_html(out, words);
        kiln_text_puts(out, ".</p>");
    }
    if (visit->signed_in)
        kiln_text_puts(out, "<p><a class=\"button\" href=\"/\">To the gallery</a></p>");
    kiln_text_puts(out, "</div>");
    kiln_gallery_end(visit);
}
