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
    "{\"name\": \"sticker\", \"triggers\": [\"sticker style\", \"sticker\"]},"
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

/* Names of looks of eight letters and more may have two wrong letters. */
static void two_slips_in_a_long_name(void **state)
{
    (void)state;
    assert_string_equal(team("a fox, watecolr painting"), "wash");
    assert_string_equal(team("a fox in aquarrele"), "wash");
    assert_string_equal(team("a fox in plastacin"), "clay");
    assert_string_equal(team("a fox, pixellaetd"), "pixel");
    static const char *const none[] = {"a fox with a watermelon", "a goldfish in a bowl",
                                       "plants on a windowsill", "a plasterer at work"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_string_equal(team(none[i]), "");
}

/* What around a word that is a thing, too, says that it is a look. */
static void ways_of_asking(void **state)
{
    (void)state;
    static const char *const clay[] = {"a clay fox",
                                       "a fox, please use clay",
                                       "a fox, I want it all in clay",
                                       "a fox turned into clay",
                                       "a fox in chunky clay",
                                       "a fox but make it clay",
                                       "a fox, style clay",
                                       "a fox, clay-looking",
                                       "a fox in a clay treatment",
                                       "a clayified fox",
                                       "a fox as if out of clay"};
    for (size_t i = 0; i < sizeof clay / sizeof *clay; i++)
        if (strcmp(team(clay[i]), "clay") != 0)
            fail_msg("'%s' is for '%s'", clay[i], team(clay[i]));
    assert_string_equal(team("a fox, a la sprite"), "pixel");
    assert_string_equal(team("a fox like on my old game boy"), "pixel");
    assert_string_equal(team("a fox who buys clay"), "");
    assert_string_equal(team("a fox on a clay hill"), "");
    assert_string_equal(team("a fox in a huge arcade"), "");
}

struct routed {
    const char *prompt, *name;
};

static void expect_all(const struct routed *routes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(team(routes[i].prompt), routes[i].name) != 0)
            fail_msg("'%s' is for '%s'", routes[i].prompt, team(routes[i].prompt));
}

/* What is denied is not asked for, and what stands for it is. */
static void ways_of_denying(void **state)
{
    (void)state;
    static const struct routed routes[] = {
        {"a fox with watercolors rather than modelling it in plasticine", "wash"},
        {"a fox in pixel art as opposed to watercolor", "pixel"},
        {"replace the neon sign with watercolor, a fox", "wash"},
        {"a neon-sign-free fox in pixel art", "pixel"},
        {"pixel art for the fox, neon style is not wanted", "pixel"},
        {"I would rather have pixel art of a fox than a neon sign", "pixel"},
        {"a fox in nothing other than pixel art", "pixel"},
        {"a fox, more than just pixel art", "pixel"},
        {"a fox that isnt pixel art", ""},
        {"a fox, steer clear of pixel art", ""},
        {"a fox, forget plasticine", ""},
        {"a fox, anything other than pixel art", ""},
        {"a fox, pixel art used to be", "pixel"},
    };
    expect_all(routes, sizeof routes / sizeof *routes);
}

/* The look stands far from the word that orders it, or is spoken of in another clause. */
static void what_becomes_a_sticker(void **state)
{
    (void)state;
    static const struct routed routes[] = {
        {"turn a fox and a hen on a meadow into a sticker", "sticker"},
        {"make a fox with a hen to the left of it, all at night into a shiny sticker", "sticker"},
        {"a fox and a hen; each is a sticker, with a blue background", "sticker"},
        {"a fox and a hen, each one a sticker", "sticker"},
        {"a fox and a hen, both as stickers", "sticker"},
        {"a sticker set showing a fox", "sticker"},
        {"make a fox and a star a sticker", "sticker"},
        {"make a fox with the sea behind a sticker", "sticker"},
        {"my kid collects stickers, so draw a fox and a hen as two of them", "sticker"},
        {"she holds a sticker, please draw a fox like that", "sticker"},
        {"a fox, as a piece of pixel artwork", "pixel"},
        {"show a fox, and I want to see the pixels", "pixel"},
        {"I asked for clay, never for neon, a fox", "clay"},
        {"a clay big red fox", "clay"},
        {"clay letters under an arrow", "clay"},
        {"\"pixel art\" is the look I'm after: a fox", "pixel"},
        {"a fox with 'pixel art' as the style", "pixel"},
        {"a car turns into a road with a sticker", ""},
        {"each of the foxes has a sticker", ""},
        {"each sticker on the wall", ""},
        {"a sticker set on a table", ""},
        {"make a fox behind a sticker", ""},
        {"make a fox and a sticker", ""},
        {"a kid collects stickers, draw a fox as a gift for them", ""},
        {"a woman collects stickers, she has many of them", ""},
        {"a fox on a piece of clay", ""},
        {"a boy wants to see the clay at school", ""},
        {"a clay red hill", ""},
        {"a fox reads \"pixel art\" in its den", ""},
    };
    expect_all(routes, sizeof routes / sizeof *routes);
}

/* Even a trigger is a thing that is carried, owned or a part of the scene. */
static void parts_of_the_scene(void **state)
{
    (void)state;
    static const struct routed routes[] = {
        {"a shop with a neon sign in its window", ""},
        {"a bar with a neon sign above its door", ""},
        {"a cat asleep under a neon tube in a garage", ""},
        {"a toddler holding a sticker book", ""},
        {"a woman who carries her watercolors home", ""},
        {"a fridge with a sticker of a banana on it", ""},
        {"a banana with a small fruit sticker", ""},
        {"a suitcase covered in old stickers", ""},
        {"a laptop with stickers on the lid", ""},
        {"a diner at night, its neon sign switched off", ""},
        {"a truck full of stickers", ""},
        {"a box of old stickers", ""},
        {"a man fixing a neon sign", ""},
        {"a framed watercolor above a sofa", ""},
        {"a child playing with clay in the yard", ""},
        {"an old man who paints in watercolor by a lake", ""},
        {"a dog called Pixel", ""},
        {"a sticker of a cat on a black background", "sticker"},
        {"a red heart with a sticker border", "sticker"},
        {"a red heart with a watercolor wash", "wash"},
        {"a red heart with a neon sign glow", "neon"},
        {"a fox as a sticker on a table", "sticker"},
        {"a fox sticker lying in the grass", "sticker"},
        {"a set of stickers of foxes", "sticker"},
        {"a cat painting in watercolor", "wash"},
        {"a boy playing football in pixel art", "pixel"},
        {"a red star made by a kid playing with plasticine", "clay"},
        {"a woman painting in watercolor by a lake", ""},
        {"an artist selling watercolors in a park", ""},
        {"a sheet of stickers lying in a drawer", ""},
        {"a fox as a neon sign in the window", "neon"},
        {"a fox with a neon sign look", "neon"},
        {"a fox with the colors of a neon sign", "neon"},
        {"a fox bent from a neon tube", "neon"},
    };
    expect_all(routes, sizeof routes / sizeof *routes);
}

/* What it shall be like, with words between; the names of sources, which the lexicon writes with a
 * capital. */
static void likenesses_and_sources(void **state)
{
    (void)state;
    static const struct routed routes[] = {
        {"a fox like something off an old Famicom cartridge", "pixel"},
        {"a fox, the way you would see it on a Mega Drive", "pixel"},
        {"a Game Boy fox", "pixel"},
        {"a fox from Monkey Island", "pixel"},
        {"Pokémon Red battle sprite of a fox", "pixel"},
        {"eine Knetfigur, ein Fuchs", "clay"},
        {"pâte à modeler, un renard", "clay"},
        {"autocollant d'un renard", "sticker"},
        {"a fox, enseigne au néon", "neon"},
        {"a Game Boy on a table", ""},
        {"a boy holding a Game Boy on a bus", ""},
        {"a Nintendo console under a tv", ""},
        {"a child who plays Tetris", ""},
        {"a tourist in Shinjuku", ""},
        {"an early man in a cave", ""},
        {"a morph suit", ""},
    };
    expect_all(routes, sizeof routes / sizeof *routes);
}

/* The denial ends where something else is ordered. */
static void denials_end_at_orders(void **state)
{
    (void)state;
    static const struct routed routes[] = {
        {"skip the watercolor and make a fox a sticker", "sticker"},
        {"forget the neon sign and draw it in pixel art, a fox", "pixel"},
        {"stop giving me pixel art, a fox", ""},
        {"quit the pixel art, a fox", ""},
        {"less pixel art, more watercolor, a fox", "wash"},
        {"less pixel art and more watercolor, a fox", "wash"},
        {"no pixel art, no clay - a watercolor of a fox", "wash"},
        {"instead of watercolor I'd like pixel art, a fox", "pixel"},
        {"swap the watercolor for clay: a fox", "clay"},
        {"-clay -watercolor, pixel art, a fox", "pixel"},
        {"we ruled out pixel art, a fox", ""},
        {"my son says it must be pixel art, a fox", "pixel"},
        {"a sign that says pixel art", ""},
    };
    expect_all(routes, sizeof routes / sizeof *routes);
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
        "a boy playing with clay on the kitchen floor",
        "the river bank of red clay after the rain",
        "a girl eating marzipan at a fair",
        "window putty and a scraper",
        "a squishy sofa in a living room",
        "fingerprints on a glass door",
        "a sculptor at work in a sunny studio",
        "a puppet theatre in the park",
        "a potter throwing clay in her workshop",
        "a dead pixel on a monitor",
        "a man walking through a shopping arcade",
        "a child with a game boy on the train",
        "an old computer in the attic",
        "a quilt of colored squares on a bed",
        "a toddler stacking colored blocks",
        "a house with stepped gables",
        "a hedgehog called Sonic in the garden",
        "a snake in the grass",
        "a graph paper notebook on a table",
        "a bar with a wooden counter",
        "a shop sign swinging in the wind",
        "a firefly glowing in the dark",
        "a lantern lit in a window",
        "electric wires above the street",
        "a laser pointer and a cat",
        "a noble gas exhibit at school",
        "a bent pipe under a sink",
        "a tourist in Las Vegas",
        "christmas lights on a tree",
        "a woman washing dishes",
        "a wet road after the rain",
        "bleeding hearts in a garden",
        "a sheet of white paper on a table",
        "a painter mixing paint on a palette",
        "salt sprinkled on a pretzel",
        "tide marks on the beach",
        "splashes of mud on a coat",
        "a paper boat floating on a puddle",
        "a thin layer of ice on a pond",
        "a transparent umbrella in the rain",
        "a skateboard leaning on a wall",
        "a gumball machine by the door",
        "a man in front of a nightclub",
        "a lamp that hangs over a bar",
        "cookies baked in the oven",
        "a child with a paintbox",
        "a wet brush on a table",
        "a tin of paints on a chair",
        "a terracotta pot on a balcony",
        "an arcade cabinet in a hotel lobby",
        "a child who plays minecraft",
        "a pack of wolves by a signal lamp",
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
        cmocka_unit_test(two_slips_in_a_long_name),
        cmocka_unit_test(ways_of_asking),
        cmocka_unit_test(ways_of_denying),
        cmocka_unit_test(what_becomes_a_sticker),
        cmocka_unit_test(parts_of_the_scene),
        cmocka_unit_test(likenesses_and_sources),
        cmocka_unit_test(denials_end_at_orders),
        cmocka_unit_test(water_color_is_one_word),
        cmocka_unit_test(groups_make_phrases),
        cmocka_unit_test(a_lora_may_refuse_what_the_lexicon_adds),
        cmocka_unit_test(things_of_the_groups_are_no_looks),
    };
    return cmocka_run_group_tests(tests, open_all, kiln_router_rig_close);
}
