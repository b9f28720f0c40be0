/* testcard_draw.c - draws the test card from top to bottom: bars, ramp, blocks, grid, words.
 *
 * Later parts cover earlier ones, so the words stay readable at every size.  Positions are
 * fractions of the sides in whole numbers; nothing is rounded differently on another machine.
 */
#include "worker/engine/testcard_draw.h"

#include <stdio.h>
#include <string.h>

#define GLYPH_ROWS 7
#define GLYPH_WIDTH 6 /* five columns and a gap */
#define BLOCKS 16

struct card {
    uint8_t *rgb;
    uint32_t width, height;
};

static void fill(const struct card *card, uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1,
                 uint32_t color)
{
    for (uint32_t y = y0; y < y1 && y < card->height; y++)
        for (uint32_t x = x0; x < x1 && x < card->width; x++) {
            uint8_t *p = card->rgb + ((size_t)y * card->width + x) * 3;
            p[0] = (uint8_t)(color >> 16);
            p[1] = (uint8_t)(color >> 8);
            p[2] = (uint8_t)color;
        }
}

/* The glyphs of "TEST CARD", of hex digits and of modes; the low five bits of a byte are a row. */
static const struct glyph {
    char letter;
    uint8_t rows[GLYPH_ROWS];
} glyphs[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},
    {'2', {14, 17, 1, 6, 8, 16, 31}},    {'3', {14, 17, 1, 6, 1, 17, 14}},
    {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},
    {'8', {14, 17, 17, 14, 17, 17, 14}}, {'9', {14, 17, 17, 15, 1, 2, 12}},
    {'A', {14, 17, 17, 31, 17, 17, 17}}, {'B', {30, 17, 17, 30, 17, 17, 30}},
    {'C', {14, 17, 16, 16, 16, 17, 14}}, {'D', {30, 17, 17, 17, 17, 17, 30}},
    {'E', {31, 16, 16, 30, 16, 16, 31}}, {'F', {31, 16, 16, 30, 16, 16, 16}},
    {'R', {30, 17, 17, 30, 20, 18, 17}}, {'S', {15, 16, 16, 14, 1, 1, 30}},
    {'T', {31, 4, 4, 4, 4, 4, 4}},       {'O', {14, 17, 17, 17, 17, 17, 14}},
    {'+', {0, 4, 4, 31, 4, 4, 0}},       {'.', {0, 0, 0, 0, 0, 12, 12}},
};

static const uint8_t *glyph_rows(char letter)
{
    for (size_t i = 0; i < sizeof glyphs / sizeof glyphs[0]; i++)
        if (glyphs[i].letter == letter)
            return glyphs[i].rows;
    return NULL; /* a blank */
}

/* Centres text around x; white on a black plate, so that it reads on every bar. */
static void write_text(const struct card *card, const char *text, uint32_t y, uint32_t scale)
{
    uint32_t length = (uint32_t)strlen(text) * GLYPH_WIDTH * scale;
    uint32_t x0 = card->width > length ? (card->width - length) / 2 : 0;
    fill(card, x0 > scale ? x0 - scale : 0, y > scale ? y - scale : 0, x0 + length,
         y + (GLYPH_ROWS + 1) * scale, 0x000000);
    for (; *text; text++, x0 += GLYPH_WIDTH * scale) {
        const uint8_t *rows = glyph_rows(*text);
        for (uint32_t row = 0; rows && row < GLYPH_ROWS; row++)
            for (uint32_t column = 0; column < 5; column++)
                if (rows[row] & (16u >> column))
                    fill(card, x0 + column * scale, y + row * scale, x0 + (column + 1) * scale,
                         y + (row + 1) * scale, 0xffffff);
    }
}

/* The finaliser of MurmurHash3: near inputs give far outputs. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

/* One pixel lines: what a bad downscale loses first. */
static void draw_grid(const struct card *card)
{
    uint32_t pitch = card->width / 8 < 8 ? 8 : card->width / 8;
    for (uint32_t x = 0; x < card->width; x += pitch)
        fill(card, x, 0, x + 1, card->height, 0xf0f0f0);
    for (uint32_t y = 0; y < card->height; y += pitch)
        fill(card, 0, y, card->width, y + 1, 0xf0f0f0);
}

void kiln_testcard_draw(uint8_t *rgb, uint32_t width, uint32_t height, uint64_t seed, uint64_t mark,
                        const char *mode)
{
    /* The eight colours of a television test, at three quarters of full strength. */
    static const uint32_t colors[8] = {0xbfbfbf, 0xbfbf00, 0x00bfbf, 0x00bf00,
                                       0xbf00bf, 0xbf0000, 0x0000bf, 0x101010};
    struct card card = {rgb, width, height};
    char digits[17];
    uint32_t scale = width / 64 ? width / 64 : 1;
    snprintf(digits, sizeof digits, "%016llX", (unsigned long long)seed);
    for (uint32_t i = 0; i < 8; i++)
        fill(&card, width * i / 8, 0, width * (i + 1) / 8, height * 5 / 8, colors[i]);
    for (uint32_t x = 0; x < width; x++)
        fill(&card, x, height * 5 / 8, x + 1, height * 6 / 8, x * 255 / (width - 1) * 0x010101);
    for (uint32_t i = 0; i < BLOCKS; i++)
        fill(&card, width * i / BLOCKS, height * 6 / 8, width * (i + 1) / BLOCKS, height,
             (uint32_t)mix((mix(seed) ^ mark) + i) & 0xffffff);
    draw_grid(&card);
    write_text(&card, "TEST CARD", height / 6, scale);
    if (width >= 2 * 64)
        write_text(&card, digits, height / 6 + 10 * scale, scale / 2);
    if (mode[0])
        write_text(&card, mode, height / 6 + 16 * scale, scale / 2 ? scale / 2 : 1);
}

void kiln_testcard_latent(const uint8_t *rgb, uint32_t width, uint32_t height, float *latent)
{
    uint32_t columns = width / 8, rows = height / 8;
    for (uint32_t c = 0; c < 16; c++)
        for (uint32_t y = 0; y < rows; y++)
            for (uint32_t x = 0; x < columns; x++) {
                /* One pixel of the 8x8 block a channel: values vary as in a real latent, so the
                 * files compress about as well. */
                const uint8_t *p = rgb + ((size_t)(y * 8 + c / 4) * width + x * 8 + c % 4) * 3;
                *latent++ = (float)p[c % 3] / 64.0f - 2.0f;
            }
}

uint64_t kiln_testcard_mark(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
    return hash;
}
