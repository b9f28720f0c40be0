/* webp_xmp.c - the XMP packet that describes a picture in its own file.
 *
 * Always: the IPTC digital source type "trainedAlgorithmicMedia", the machine-readable mark of a
 * generated picture.  Where given: the prompt under IPTC's own names of 2025.1 (AI Prompt
 * Information, AI System Used) and every parameter once more under Kiln's namespace, one
 * parameter an element, so that a program can rebuild the job line.
 *
 * Texts come from people.  They are escaped, and what XML 1.0 cannot hold at all (control
 * characters, U+FFFE, U+FFFF, bytes that are no UTF-8) becomes U+FFFD.
 */
#include <inttypes.h>
#include <string.h>

#include "schemas/text/text.h"
#include "schemas/text/utf8.h"
#include "storage/formats/pictures/webp.h"

#define REPLACEMENT "\xEF\xBF\xBD"

static const char head[] = "<?xpacket begin=\"\xEF\xBB\xBF\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n"
                           "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\">\n"
                           "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\n"
                           "<rdf:Description rdf:about=\"\"\n"
                           " xmlns:xmp=\"http://ns.adobe.com/xap/1.0/\"\n"
                           " xmlns:Iptc4xmpExt=\"http://iptc.org/std/Iptc4xmpExt/2008-02-29/\"\n"
                           " xmlns:kiln=\"urn:kiln:generation:1\">\n"
                           "<Iptc4xmpExt:DigitalSourceType>"
                           "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
                           "</Iptc4xmpExt:DigitalSourceType>\n"
                           "<xmp:CreatorTool>Kiln</xmp:CreatorTool>\n";

static const char tail[] = "</rdf:Description>\n</rdf:RDF>\n</x:xmpmeta>\n<?xpacket end=\"w\"?>";

/* What stands for the character of len bytes at text, or NULL for itself. */
static const char *escape_of(const char *text, size_t len)
{
    if (len == 0)
        return REPLACEMENT;
    if (len == 3 && (memcmp(text, "\xEF\xBF\xBE", 3) == 0 || memcmp(text, "\xEF\xBF\xBF", 3) == 0))
        return REPLACEMENT;
    switch (text[0]) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '\r':
        return "&#13;"; /* a parser would turn a bare one into a newline */
    case '\t':
    case '\n':
        return NULL;
    default:
        return (unsigned char)text[0] < 0x20 ? REPLACEMENT : NULL;
    }
}

/* Escapes each character: an invalid byte is replaced alone. */
static void put_escaped(struct kiln_text *out, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        size_t len = kiln_utf8_length(text, left);
        const char *escape = escape_of(text, len);
        if (len == 0)
            len = 1;
        if (escape)
            kiln_text_puts(out, escape);
        else
            kiln_text_add(out, text, len);
        text += len;
        left -= len;
    }
}

/* An element, unless the text is empty. */
static void put_text(struct kiln_text *out, const char *name, const char *text)
{
    if (!text || !text[0])
        return;
    kiln_text_printf(out, "<%s>", name);
    put_escaped(out, text);
    kiln_text_printf(out, "</%s>\n", name);
}

/* Numbers are written in full, so that reading them back gives the same. */
static void put_parameters(struct kiln_text *out, const struct kiln_webp_about *about)
{
    put_text(out, "Iptc4xmpExt:AIPromptInformation", about->prompt);
    put_text(out, "Iptc4xmpExt:AISystemUsed", about->model);
    put_text(out, "kiln:prompt", about->prompt);
    put_text(out, "kiln:prompt_written", about->written);
    put_text(out, "kiln:negative_prompt", about->negative_prompt);
    put_text(out, "kiln:model", about->model);
    put_text(out, "kiln:lora_set", about->lora_set);
    kiln_text_printf(out,
                     "<kiln:seed>%" PRIu64 "</kiln:seed>\n<kiln:width>%u</kiln:width>\n"
                     "<kiln:height>%u</kiln:height>\n<kiln:steps>%u</kiln:steps>\n"
                     "<kiln:guidance>",
                     about->seed, about->width, about->height, about->steps);
    kiln_text_double(out, about->guidance);
    kiln_text_puts(out, "</kiln:guidance>\n");
    put_text(out, "kiln:mode", about->mode);
    put_text(out, "kiln:start", about->start);
    put_text(out, "kiln:mask", about->mask);
    if (about->mode && about->mode[0]) {
        kiln_text_puts(out, "<kiln:forwards>");
        kiln_text_double(out, about->forwards);
        kiln_text_puts(out, "</kiln:forwards>\n");
    }
    if (about->parent)
        kiln_text_printf(out, "<kiln:parent>%" PRIu64 "</kiln:parent>\n", about->parent);
}

char *kiln_webp_xmp_packet(const struct kiln_webp_about *about)
{
    struct kiln_text out = {0};
    kiln_text_puts(&out, head);
    if (about)
        put_parameters(&out, about);
    kiln_text_puts(&out, tail);
    return kiln_text_take(&out);
}
