/* word_lists.c - see word_lists.h. */
#include "scheduler/router/word_lists.h"

#include <stddef.h>

const struct kiln_word_list kiln_word_lists[] = {
    {KILN_WORD_SMALL,
     "a an the of in on at to and or with as by for from is are be it its this that "
     "some very into over his her their my your made"},
    {KILN_WORD_PRAISE,
     "style styled image picture photo quality best high highly detail detailed details "
     "masterpiece "
     "beautiful stunning amazing gorgeous art artwork artistic digital illustration illustrated "
     "ultra hyper hd uhd 4k 8k realistic realism professional sharp focus award winning intricate "
     "trending artstation nice nicer better look looks vivid colors color aesthetic portrait scene "
     "background concept design render rendering effect cinematic lighting light lora trained "
     "steps dim everything makes use model"},
    {KILN_WORD_LOOK,
     "style styled art artwork painting render rendering drawing look aesthetic effect "
     "illustration "
     "picture image print sketch version animation film photo photograph poster still scene "
     "portrait graphics technique rendition texture design of like ish esque inspired themed vibe "
     "feel treatment visuals manner filter looking flavored fashion mood approach medium method "
     "finish flavor makeover "
     "transformation conversion variant edition interpretation take homage tribute atmosphere "
     "artstyle theme visual feeling craft 风格 效果"},
    {KILN_WORD_THING,
     "set box kit class course lesson workshop museum gallery exhibition shop store supplies paper "
     "brush book shelf bookshelf case bottle jar tin factory grill suit phone court pot tile table "
     "floor countertop rig lamp medal age band carpet sweater scarf shirt teacher dealer collector "
     "seller magazine studio supply museum tutorial festival competition contest auction "
     "wholesaler "
     "brick pit soil pigeon worm tablet roof mug cup vase frame tray lobby hotel label sock hat "
     "jumper blanket cushion gas atom palette easel bowl jug urn tetra jacket hoodie sneakers "
     "highlighter vest shoes shoe trainers jersey gloves glove leggings bikini coat laces wig ball "
     "machine collie pad bag microchip chip processor microcontroller pencils easels lid "
     "aquarium repairman removal remover scraper vendor merchant stall"},
    {KILN_WORD_CONTAINER,
     "box set pile pack packet jar tube sheet stack bag bucket crate drawer lump "
     "roll bottle shelf tin can glass cup bowl plate piece tub brick barrel barge truck lorry "
     "wheelbarrow sack chunk slab block ball tray pot pool puddle full handful cloud drop stain"},
    {KILN_WORD_PLACE, "on at under beside behind in inside near next between above below"},
    {KILN_WORD_MAKING, "drawn drawing painted painting rendered made done created depicted "
                       "illustrated executed shown "
                       "styled portrayed designed sketched crafted built formed shaped sculpted "
                       "modeled molded traced "
                       "shaded constructed sculpt "
                       "turn turned convert converted transform transformed reimagined "
                       "reinterpreted redone redrawn remade "
                       "reworked translated treated handled finished realized"},
    {KILN_WORD_ASKING, "please thanks make do want use go going give keep all everything whole "
                       "entire entirely just only "
                       "pure purely full fully total totally completely classic traditional proper "
                       "simple simply overall me "
                       "you we i us would could can should id let need think prefer preferably try "
                       "throughout done render draw "
                       "paint turn them wanted"},
    {KILN_WORD_TRADING,
     "sell selling sold buy buying bought collect collecting collected hold holding held carry "
     "carrying eat eating wear wearing steal stealing find finding lost putting placing hanging "
     "repair fix fixes mend mending changing installing mining digging pouring fixing repairing "
     "cleaning scraping packing spilling opening"},
    {KILN_WORD_MATERIAL, "clay dough pixel sprite"},
    {KILN_WORD_FIGURE,
     "figure character creature animal monster robot dragon unicorn dinosaur "
     "alien ghost witch wizard knight "
     "pirate princess prince king queen hero man woman boy girl child baby lady "
     "fox cat kitten dog puppy bird "
     "owl duck hen chicken rooster goose swan penguin parrot eagle horse pony "
     "donkey cow calf pig piglet sheep "
     "lamb goat rabbit bunny hare mouse rat hamster squirrel hedgehog badger "
     "bear panda koala tiger lion wolf "
     "deer elephant giraffe zebra hippo rhino monkey ape gorilla kangaroo camel "
     "snake lizard frog toad turtle "
     "tortoise crocodile fish shark whale dolphin octopus crab snail bee "
     "butterfly ladybug spider ant "
     "heart star moon sun circle square triangle rectangle diamond "
     "hexagon pentagon ring disc arrow "
     "rhombus oval crescent hoop trapezoid letter "
     "cross flower blossom rose tree mushroom apple banana cherry strawberry chick caveman sloth "
     "otter beaver seal walrus moose reindeer bat bug caterpillar worm snowman "
     "train tractor car truck bus boat ship rocket plane teddy bunny puppet "
     "mermaid fairy elf troll gnome ogre monkey llama alpaca yak ox bull ram "
     "goldfish jellyfish starfish squid lobster shrimp peacock flamingo toucan "
     "pigeon crow raven robin sparrow cactus sunflower tulip daisy pumpkin "
     "carrot pear lemon orange pineapple cupcake donut cookie pizza burger "
     "astronaut cowboy sailor chef clown ninja plus shape blob family hen "
     "armadillo porcupine meerkat lemur gecko chameleon dachshund corgi poodle"},
    {KILN_WORD_TINT,
     "red blue green yellow orange purple pink brown black white gray cyan magenta turquoise "
     "violet "
     "crimson teal indigo gold golden silver beige maroon scarlet navy lilac tiny small little big "
     "large huge giant medium sized mid tall short round"},
    {KILN_WORD_FIXTURE,
     "window door wall roof front facade entrance ceiling porch balcony floor carpet rug pavement "
     "shelf table desk bench counter chair sofa windscreen hallway"},
    {KILN_WORD_DEVICE,
     "toy suit cleaner console controller machine cabinet cartridge fan poster player collection "
     "plush costume "
     "charger remote joystick gamepad headquarters executive employee stock store convention "
     "lying standing sitting leaning plugged left forgotten lay sits lies stands"},
    {KILN_WORD_PERSON,
     "child kid kids boy girl man woman lady toddler baby artist painter sculptor potter teacher "
     "pupil student grandmother grandma granny grandfather grandpa mother mum mom father dad uncle "
     "aunt friend person people somebody someone nurse monk scribe clerk tourist "
     "children men women etcher engraver writer poet judge doctor worker plumber builder farmer "
     "gardener sister brother son daughter"},
    {KILN_WORD_WORKING,
     "playing play painting paints drawing draws sketching sketches modeling sculpting "
     "kneading molding making using mixing shaping rolling squeezing squashing digging putting "
     "sticking peeling etching engraving inking writing cleaning"},
    {KILN_WORD_OWNABLE,
     "album clay plasticine sticker sign decal tube watercolor etching engraving label lamp"},
    {KILN_WORD_LIKENING, KILN_LIKENS_ALONE " " KILN_LIKENS_IN_FRONT " " KILN_LIKENS_IF_FROM
                                           " " KILN_LIKENS_IF_SEEN " as way"},
    {KILN_WORD_BESIDE, "and with holding wearing above under below behind beside next near over"},
    {KILN_WORD_MOOD,
     "vibe energy nostalgia aesthetic feel era style look mood inspired day flavor"},
    {KILN_WORD_ORDER, "make turn draw convert transform change paint show do render put sketch"},
    {KILN_WORD_ENGLISH,
     "anis bleu bran brio clam clod doss dost gird hoes lief loin loom nori peen penn ploy rani "
     "ruts sens sett slat wets hatchet hatchling hatchery hatchback electrician stickler"},
    {0, NULL}};

const char kiln_word_spellings[26][4][2][12] = {
    ['a' - 'a'] = {{"analogue", "analog"}, {"armour", "armor"}, {"aluminium", "aluminum"}},
    ['c' - 'a'] = {{"colour", "color"}, {"centre", "center"}},
    ['e' - 'a'] = {{"enamelled", "enameled"}},
    ['g' - 'a'] = {{"grey", "gray"}},
    ['j' - 'a'] = {{"jewellery", "jewelry"}},
    ['m' - 'a'] = {{"mould", "mold"}, {"modelling", "modeling"}, {"modelled", "modeled"}},
    ['t' - 'a'] = {{"theatre", "theater"}},
};

/* Characters that differ, in the order of the first; those of looks, things and their names. */
static const uint16_t simplified[][2] = {
    {0x4e9e, 0x4e9a}, {0x4f86, 0x6765}, {0x500b, 0x4e2a}, {0x5011, 0x4eec}, {0x502b, 0x4f26},
    {0x5098, 0x4f1e}, {0x50b3, 0x4f20}, {0x512a, 0x4f18}, {0x5152, 0x513f}, {0x5167, 0x5185},
    {0x5169, 0x4e24}, {0x51cd, 0x51bb}, {0x5283, 0x5212}, {0x5287, 0x5267}, {0x528d, 0x5251},
    {0x52d5, 0x52a8}, {0x52dd, 0x80dc}, {0x5340, 0x533a}, {0x53c3, 0x53c2}, {0x54e1, 0x5458},
    {0x554f, 0x95ee}, {0x55ae, 0x5355}, {0x570b, 0x56fd}, {0x5712, 0x56ed}, {0x5713, 0x5706},
    {0x5716, 0x56fe}, {0x5831, 0x62a5}, {0x5834, 0x573a}, {0x584a, 0x5757}, {0x5875, 0x5c18},
    {0x5922, 0x68a6}, {0x5967, 0x5965}, {0x5b30, 0x5a74}, {0x5b78, 0x5b66}, {0x5bae, 0x5bab},
    {0x5be6, 0x5b9e}, {0x5beb, 0x5199}, {0x5bf6, 0x5b9d}, {0x5c07, 0x5c06}, {0x5c08, 0x4e13},
    {0x5c0b, 0x5bfb}, {0x5c0d, 0x5bf9}, {0x5c0e, 0x5bfc}, {0x5c64, 0x5c42}, {0x5c6c, 0x5c5e},
    {0x5cf6, 0x5c9b}, {0x5dd6, 0x5ca9}, {0x5e25, 0x5e05}, {0x5e2b, 0x5e08}, {0x5e36, 0x5e26},
    {0x5e7e, 0x51e0}, {0x5eab, 0x5e93}, {0x5ee2, 0x5e9f}, {0x5ee3, 0x5e7f}, {0x5f35, 0x5f20},
    {0x5f37, 0x5f3a}, {0x5f48, 0x5f39}, {0x5f8c, 0x540e}, {0x5f9e, 0x4ece}, {0x5fa9, 0x590d},
    {0x61b6, 0x5fc6}, {0x61c9, 0x5e94}, {0x61f7, 0x6000}, {0x6230, 0x6218}, {0x6232, 0x620f},
    {0x6236, 0x6237}, {0x6383, 0x626b}, {0x63db, 0x6362}, {0x647a, 0x6298}, {0x64da, 0x636e},
    {0x64ec, 0x62df}, {0x651d, 0x6444}, {0x65b7, 0x65ad}, {0x6642, 0x65f6}, {0x66f8, 0x4e66},
    {0x6703, 0x4f1a}, {0x6771, 0x4e1c}, {0x689d, 0x6761}, {0x6975, 0x6781}, {0x69cb, 0x6784},
    {0x69cd, 0x67aa}, {0x6a02, 0x4e50}, {0x6a19, 0x6807}, {0x6a39, 0x6811}, {0x6a5f, 0x673a},
    {0x6a94, 0x6863}, {0x6ac3, 0x67dc}, {0x6b50, 0x6b27}, {0x6b72, 0x5c81}, {0x6b77, 0x5386},
    {0x6bba, 0x6740}, {0x6c23, 0x6c14}, {0x6c92, 0x6ca1}, {0x6c96, 0x51b2}, {0x6dfa, 0x6d45},
    {0x6e2c, 0x6d4b}, {0x6e6f, 0x6c64}, {0x6eab, 0x6e29}, {0x6ec5, 0x706d}, {0x6eff, 0x6ee1},
    {0x6f01, 0x6e14}, {0x6f22, 0x6c49}, {0x6f54, 0x6d01}, {0x6fa4, 0x6cfd}, {0x6fc3, 0x6d53},
    {0x6fd5, 0x6e7f}, {0x7063, 0x6e7e}, {0x70ba, 0x4e3a}, {0x7121, 0x65e0}, {0x7159, 0x70df},
    {0x71b1, 0x70ed}, {0x71c8, 0x706f}, {0x71d2, 0x70e7}, {0x71ed, 0x70db}, {0x7210, 0x7089},
    {0x722d, 0x4e89}, {0x7246, 0x5899}, {0x727d, 0x7275}, {0x72c0, 0x72b6}, {0x7345, 0x72ee},
    {0x7368, 0x72ec}, {0x7378, 0x517d}, {0x73fe, 0x73b0}, {0x74b0, 0x73af}, {0x7522, 0x4ea7},
    {0x7562, 0x6bd5}, {0x756b, 0x753b}, {0x7570, 0x5f02}, {0x7576, 0x5f53}, {0x758a, 0x53e0},
    {0x7642, 0x7597}, {0x767c, 0x53d1}, {0x76dc, 0x76d7}, {0x76e3, 0x76d1}, {0x76e4, 0x76d8},
    {0x773e, 0x4f17}, {0x7926, 0x77ff}, {0x79ae, 0x793c}, {0x7a2e, 0x79cd}, {0x7a31, 0x79f0},
    {0x7a4d, 0x79ef}, {0x7aaf, 0x7a91}, {0x7af6, 0x7ade}, {0x7b46, 0x7b14}, {0x7b4d, 0x7b0b},
    {0x7bc4, 0x8303}, {0x7c21, 0x7b80}, {0x7c43, 0x7bee}, {0x7ce7, 0x7cae}, {0x7d04, 0x7ea6},
    {0x7d05, 0x7ea2}, {0x7d14, 0x7eaf}, {0x7d17, 0x7eb1}, {0x7d19, 0x7eb8}, {0x7d1a, 0x7ea7},
    {0x7d1b, 0x7eb7}, {0x7d30, 0x7ec6}, {0x7d42, 0x7ec8}, {0x7d44, 0x7ec4}, {0x7d50, 0x7ed3},
    {0x7d66, 0x7ed9}, {0x7d71, 0x7edf}, {0x7d72, 0x4e1d}, {0x7d93, 0x7ecf}, {0x7da0, 0x7eff},
    {0x7da2, 0x7ef8}, {0x7dad, 0x7ef4}, {0x7db2, 0x7f51}, {0x7dbf, 0x7ef5}, {0x7dda, 0x7ebf},
    {0x7de8, 0x7f16}, {0x7e2b, 0x7f1d}, {0x7e3d, 0x603b}, {0x7e54, 0x7ec7}, {0x7e61, 0x7ee3},
    {0x7e6a, 0x7ed8}, {0x7f85, 0x7f57}, {0x7fa9, 0x4e49}, {0x7fd2, 0x4e60}, {0x8056, 0x5723},
    {0x806f, 0x8054}, {0x8072, 0x58f0}, {0x8077, 0x804c}, {0x8166, 0x8111}, {0x8173, 0x811a},
    {0x81c9, 0x8138}, {0x81fa, 0x53f0}, {0x8207, 0x4e0e}, {0x8208, 0x5174}, {0x820a, 0x65e7},
    {0x8266, 0x8230}, {0x8277, 0x8273}, {0x838a, 0x5e84}, {0x83ef, 0x534e}, {0x842c, 0x4e07},
    {0x8449, 0x53f6}, {0x84ee, 0x83b2}, {0x85cd, 0x84dd}, {0x85dd, 0x827a}, {0x85e5, 0x836f},
    {0x8607, 0x82cf}, {0x862d, 0x5170}, {0x8655, 0x5904}, {0x865b, 0x865a}, {0x865f, 0x53f7},
    {0x8766, 0x867e}, {0x87f2, 0x866b}, {0x8853, 0x672f}, {0x885b, 0x536b}, {0x885d, 0x51b2},
    {0x88dc, 0x8865}, {0x88dd, 0x88c5}, {0x8907, 0x590d}, {0x898b, 0x89c1}, {0x8996, 0x89c6},
    {0x89ba, 0x89c9}, {0x89bd, 0x89c8}, {0x89c0, 0x89c2}, {0x8a08, 0x8ba1}, {0x8a18, 0x8bb0},
    {0x8a2d, 0x8bbe}, {0x8a31, 0x8bb8}, {0x8a55, 0x8bc4}, {0x8a69, 0x8bd7}, {0x8a71, 0x8bdd},
    {0x8a72, 0x8be5}, {0x8a8c, 0x5fd7}, {0x8a8d, 0x8ba4}, {0x8a9e, 0x8bed}, {0x8aaa, 0x8bf4},
    {0x8ab2, 0x8bfe}, {0x8abf, 0x8c03}, {0x8ac7, 0x8c08}, {0x8acb, 0x8bf7}, {0x8afe, 0x8bfa},
    {0x8b0e, 0x8c1c}, {0x8b1b, 0x8bb2}, {0x8b49, 0x8bc1}, {0x8b5c, 0x8c31}, {0x8b77, 0x62a4},
    {0x8b80, 0x8bfb}, {0x8b8a, 0x53d8}, {0x8b93, 0x8ba9}, {0x8c50, 0x4e30}, {0x8c6c, 0x732a},
    {0x8c93, 0x732b}, {0x8c9d, 0x8d1d}, {0x8ca8, 0x8d27}, {0x8cbb, 0x8d39}, {0x8cbc, 0x8d34},
    {0x8ce3, 0x5356}, {0x8cea, 0x8d28}, {0x8cfc, 0x8d2d}, {0x8cfd, 0x8d5b}, {0x8de1, 0x8ff9},
    {0x8eca, 0x8f66}, {0x8ecd, 0x519b}, {0x8edf, 0x8f6f}, {0x8f03, 0x8f83}, {0x8f09, 0x8f7d},
    {0x8f15, 0x8f7b}, {0x8f2a, 0x8f6e}, {0x8fb2, 0x519c}, {0x9019, 0x8fd9}, {0x9023, 0x8fde},
    {0x9032, 0x8fdb}, {0x904b, 0x8fd0}, {0x904e, 0x8fc7}, {0x9060, 0x8fdc}, {0x9078, 0x9009},
    {0x907a, 0x9057}, {0x9081, 0x8fc8}, {0x9084, 0x8fd8}, {0x908a, 0x8fb9}, {0x908f, 0x903b},
    {0x90f5, 0x90ae}, {0x9109, 0x4e61}, {0x9130, 0x90bb}, {0x91cb, 0x91ca}, {0x91dd, 0x9488},
    {0x9280, 0x94f6}, {0x9285, 0x94dc}, {0x92ea, 0x94fa}, {0x92fc, 0x94a2}, {0x9304, 0x5f55},
    {0x9322, 0x94b1}, {0x9326, 0x9526}, {0x934a, 0x94fe}, {0x937e, 0x949f}, {0x93ae, 0x9547},
    {0x93e1, 0x955c}, {0x9418, 0x949f}, {0x9435, 0x94c1}, {0x9472, 0x9576}, {0x947d, 0x94bb},
    {0x9577, 0x957f}, {0x9580, 0x95e8}, {0x9583, 0x95ea}, {0x958b, 0x5f00}, {0x9593, 0x95f4},
    {0x95ca, 0x9614}, {0x95dc, 0x5173}, {0x9663, 0x9635}, {0x9670, 0x9634}, {0x967d, 0x9633},
    {0x968a, 0x961f}, {0x96a8, 0x968f}, {0x96aa, 0x9669}, {0x96d9, 0x53cc}, {0x96dc, 0x6742},
    {0x96de, 0x9e21}, {0x96e2, 0x79bb}, {0x96e3, 0x96be}, {0x96f2, 0x4e91}, {0x96fb, 0x7535},
    {0x9727, 0x96fe}, {0x9748, 0x7075}, {0x975c, 0x9759}, {0x97ff, 0x54cd}, {0x9801, 0x9875},
    {0x9806, 0x987a}, {0x9808, 0x987b}, {0x9818, 0x9886}, {0x982d, 0x5934}, {0x984f, 0x989c},
    {0x985e, 0x7c7b}, {0x986f, 0x663e}, {0x98a8, 0x98ce}, {0x98db, 0x98de}, {0x98ef, 0x996d},
    {0x98fe, 0x9970}, {0x9928, 0x9986}, {0x99ac, 0x9a6c}, {0x99d5, 0x9a7e}, {0x9a0e, 0x9a91},
    {0x9a5a, 0x60ca}, {0x9ad4, 0x4f53}, {0x9aee, 0x53d1}, {0x9b06, 0x677e}, {0x9b5a, 0x9c7c},
    {0x9ce5, 0x9e1f}, {0x9cf3, 0x51e4}, {0x9d28, 0x9e2d}, {0x9d5d, 0x9e45}, {0x9e7d, 0x76d0},
    {0x9e97, 0x4e3d}, {0x9ea5, 0x9ea6}, {0x9ec3, 0x9ec4}, {0x9ecf, 0x7c98}, {0x9ede, 0x70b9},
    {0x9f4a, 0x9f50}, {0x9f8d, 0x9f99}, {0x9f90, 0x5e9e}, {0x9f9c, 0x9f9f},
};

uint32_t kiln_word_simplified(uint32_t code)
{
    size_t low = 0, high = sizeof simplified / sizeof *simplified;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (simplified[middle][0] == code)
            return simplified[middle][1];
        if (simplified[middle][0] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return code;
}
