/* test_router_words.c - words that the router reads otherwise than they are written: misspelt ones,
 * and what the lexicon's groups of words mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/router.h"

static const char registry[] =
    "{\"loras\": ["
    "{\"name\": \"neon\", \"triggers\": [\"neon style\", \"neon sign\"]},"
    "{\"name\": \"clay\", \"triggers\": [\"clay style\"], \"negative\": [\"play doh\", \"salt "
    "dough\"]},"
    "{\"name\": \"pixel\", \"triggers\": [\"pxl\"], \"positive\": [\"pixel art\"]},"
    "{\"name\": \"wash\", \"triggers\": [\"wshpnt\"], \"positive\": [\"watercolor\"]}]}";

/* The LoRA of a prompt that gets one, "" for none, "many" for more. */
static const char *team(const char *prompt)
{
    struct kiln_error err;
    struct kiln_route route;
    if (kiln_router_route(reader, &(struct kiln_router_request){.prompt = prompt}, &route, &err))
        fail_msg("%s", err.text);
    return route.count == 0   ? ""
           : route.count == 1 ? kiln_router_lora(router, route.picks[0].lora)->name
                              : "many";
}

/* A wrong or missing letter of a short word, if the words beside it say what it is. */
static void short_words_are_read_within_their_phrase(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, neom sign"), "neon");
    assert_string_equal(team("a fox, nen glow"), "neon");
    assert_string_equal(team("a fox, pixel atr"), "pixel");
    assert_string_equal(team("a fox, modelling caly"), "clay");
    assert_string_equal(team("a fox, modelling cley"), "clay");
    assert_string_equal(team("a fox, neo sign"), ""); /* a word of its own */
    assert_string_equal(team("a fox with a nein"), "");
    assert_string_equal(team("a fox, cley"), "");
}

static void other_ways_to_misspell(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, enon style"), "neon"); /* the first two letters */
    assert_string_equal(team("a fox, piksel art"), "pixel");
    assert_string_equal(team("a fox, klay style"), "clay");
    assert_string_equal(team("a fox, glowing conturs"), "neon");
    assert_string_equal(team("a fox, luminesent conturs"), "neon");
    assert_string_equal(team("a fox, modeling in plasticine"), "clay");
    assert_string_equal(team("a clayish fox"), "clay");
    assert_string_equal(team("a fox, plasticineish"), "clay");
    assert_string_equal(team("a foxish animal"), "");
}

/* Britain's spelling may be misspelt, too; and two words that are one are not just any two. */
static void water_color_is_one_word(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, waterclour painting"), "wash");
    assert_string_equal(team("a fox, water colour"), "wash");
    assert_string_equal(team("a glass of water with colour in it"), "");
    assert_string_equal(team("the water has a colour"), "");
}

/* "@glowing @outline", "bar sign?" of the lexicon. */
static void groups_make_phrases(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, luminous contours"), "neon");
    assert_string_equal(team("a fox, contours that are luminous"), "neon");
    assert_string_equal(team("a fox, luminous"), ""); /* half of one is none */
    assert_string_equal(team("a fox shaped out of plasticine"), "clay");
    assert_string_equal(team("a fox like a bar sign"), "neon");
    assert_string_equal(team("a fox, bar sign style"), "neon");
    assert_string_equal(team("a fox below a bar sign"), "");
    assert_string_equal(team("a fox made of little squares"), "pixel");
    assert_string_equal(team("a little square"), "");
    assert_string_equal(team("a fox drawn with neon"), "neon");
    assert_string_equal(team("a fox below the neon"), "");
}

/* A LoRA's negative phrases take phrases of the lexicon away from it. */
static void a_lora_may_refuse_what_the_lexicon_adds(void **state)
{
    (void)state;
    assert_string_equal(team("a fox made of plasticine"), "clay");
    assert_string_equal(team("a fox made of play-doh"), "");
    assert_string_equal(team("a fox, salt dough"), "");
    assert_string_equal(team("a salt dough fox in clay style"), "clay");
}

/* Words of those groups that name things. */
static void things_of_the_groups_are_no_looks(void **state)
{
    (void)state;
    static const char *const none[] = {
        "a fluorescent tube hanging in a garage",
        "a boy playing an old video game",
        "a retro game console on a shelf",
        "bread dough shaped into loaves",
        "a basin to wash hands",
        "rough paper bags stacked by the door",
        "a quilt made of colored squares",
        "a house made of blocks",
        "an electric sign post at the crossroads",
        "a halo of light around the moon",
        "a strip of light under the door",
        "a bitmap of voters",
        "a can of sprite on ice",
        "flowing colors of a flag in the wind",
        "the watercolors of the sea",
        "atom model of neon gas",
        "sick of clay, a fox",
        "a watercolor palette on a stool",
        "a lake where the water color is a deep green",
        "a street in Tokyo with many signs",
        "a fox, skip the neon sign",
        "a fox made of wood rather than sculpted in clay",
        "leave out the pixel art, a fox",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (*team(none[i]))
            fail_msg("'%s' is for %s", none[i], team(none[i]));
    assert_string_equal(team("in the watercolors of the sea, a fox"), "wash");
    assert_string_equal(team("a sprite of a fox"), "pixel");
    assert_string_equal(team("a fox, 32x32 sprite"), "pixel");
    assert_string_equal(team("a fox like the signs in Las Vegas"), "neon");
    assert_string_equal(team("a fox, pigment pooling at the edges"), "wash");
    assert_string_equal(team("a fox, retro game look"), "pixel");
    assert_string_equal(team("a fox in pixel art with no anti-aliasing"), "pixel");
}

static int open_all(void **state)
{
    (void)state;
    return kiln_router_rig_open(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_words_are_read_within_their_phrase),
        cmocka_unit_test(other_ways_to_misspell),
        cmocka_unit_test(water_color_is_one_word),
        cmocka_unit_test(groups_make_phrases),
        cmocka_unit_test(a_lora_may_refuse_what_the_lexicon_adds),
        cmocka_unit_test(things_of_the_groups_are_no_looks),
    };
    return cmocka_run_group_tests(tests, open_all, kiln_router_rig_close);
}
