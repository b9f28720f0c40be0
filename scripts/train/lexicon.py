"""lexicon.py - the words of other people for what world.py draws, with how often each is taken.

Every table maps a name of world.py to "word word*3 two_words": a star gives the weight (1 if none), an underscore is a space.
words(rng, table, name) takes one.  The name itself is the commonest everywhere.
"""
import itertools


def table(**rows):
    """{name: (words, cumulative weights)}; an underscore in a name is a space."""
    out = {}
    for name, row in rows.items():
        entries = [entry.partition("*") for entry in row.split()]
        out[name.replace("_", " ")] = ([word.replace("_", " ") for word, _, _ in entries],
                                       list(itertools.accumulate(float(weight or 1) for _, _, weight in entries)))
    return out


def words(rng, rows, name):
    choices, weights = rows[name]
    return rng.choices(choices, cum_weights=weights)[0]


def listed(rows, name):
    return rows[name][0]


SHAPE = table(
    circle="circle*14 disc*2 disk*2 ball*3 dot*3 orb sphere round_shape circular_shape*0.7 round*0.2 spot*0.7 bubble*0.5 coin*0.3 full_circle*0.3"
           " filled_circle*0.4 solid_circle*0.4 round_disc*0.4 round_dot*0.3 blob*0.2 pellet*0.1 bead*0.2 globe*0.3",
    square="square*14 box*3 block*3 cube*1.5 tile square_shape*0.5 four-sided_shape*0.2 square_block*0.4 square_box*0.3"
           " square_tile*0.3 brick*0.2 quadrilateral*0.1",
    triangle="triangle*14 triangular_shape three-sided_shape*0.7 pyramid*0.7 wedge*0.3 three-cornered_shape*0.2 delta*0.1"
             " equilateral_triangle*0.3 trigon*0.1 three-sided_figure*0.2",
    star="star*14 five-pointed_star*1.2 star_shape starlet*0.2 5-pointed_star*0.4 five-point_star*0.4"
         " pointed_star*0.3 starburst*0.2 pentagram*0.2 asterisk_star*0.05 twinkle*0.05",
    heart="heart*14 heart_shape*1.5 love_heart*1.2 valentine*0.5 heart_symbol*0.5 valentine_heart*0.4 heart_icon*0.3"
          " sweetheart*0.1 love_symbol*0.2",
    ring="ring*14 hoop*2.5 donut*2 doughnut*1.5 annulus*0.5 hollow_circle*0.8 torus*0.4 circular_ring*0.4 round_ring*0.3"
         " loop*0.4 band*0.1 circle_with_a_hole*0.4 open_circle*0.2 bagel*0.2 ring_shape*0.5 wheel_rim*0.05 hula_hoop*0.1"
         " life_ring*0.1",
    cross="cross*14 plus_sign*2.5 plus*2.5 plus_symbol cross_shape*0.8 plus_shape*0.5 greek_cross*0.2 cross_sign*0.3"
          " cross_symbol*0.3 +_sign*0.3 medical_cross*0.2 plus_mark*0.2",
    hexagon="hexagon*14 six-sided_shape*1.5 hex*0.8 hexagonal_shape*0.8 six-sided_polygon*0.8 honeycomb_cell*0.5"
            " regular_hexagon*0.4 6-sided_shape*0.3 hexagon_shape*0.4 six-sided_figure*0.4 hexagonal_tile*0.3"
            " honeycomb*0.3 six-cornered_shape*0.2",
    crescent="crescent*12 crescent_moon*4 moon*4 half-moon*1.2 half_moon sickle*0.6 moon_shape*0.5 crescent_shape*0.8"
             " moon_crescent*0.3 lunar_crescent*0.3 new_moon*0.3 moon_sickle*0.3 lune*0.1 sickle_moon*0.3 quarter_moon*0.2",
    arrow="arrow*14 arrow_pointing_right*2 right-pointing_arrow right_arrow*0.8 pointer*0.8 arrow_shape*0.5 arrow_sign*0.4"
          " arrow_to_the_right*0.2 arrow_symbol*0.3 rightward_arrow*0.3 dart*0.1 right-facing_arrow*0.3"
          " direction_arrow*0.1",
    diamond="diamond*14 rhombus*3 lozenge*1.5 diamond_shape*1.2 rhomb*0.3 kite*0.4 tilted_square*0.2 gem*0.3"
            " diamond-shaped_figure*0.2 rhombus_shape*0.3 jewel*0.1",
    flower="flower*14 blossom*3 bloom*1.5 daisy*1 flower_shape*0.7 flower_head*0.3 posy*0.1 floret*0.2 floral_shape*0.2"
           " wildflower*0.2 petal_flower*0.2 little_bloom*0.05 buttercup*0.1 poppy*0.1 flowerhead*0.1",
)
PLURAL = {"daisy": "daisies", "posy": "posies", "poppy": "poppies", "torus": "tori", "annulus": "annuli", "cross": "crosses",
          "box": "boxes", "greek cross": "greek crosses", "medical cross": "medical crosses", "plus": "pluses",
          "hex": "hexes", "rhombus": "rhombuses", "circle with a hole": "circles with a hole",
          "arrow pointing right": "arrows pointing right", "arrow to the right": "arrows to the right", "round": "round shapes"}

COLOUR = table(
    red="red*22 crimson*1.5 scarlet*1.5 ruby ruby_red*0.5 cherry*0.4 cherry_red*0.5 vermilion*0.5 maroon*0.8 burgundy*0.7"
        " brick_red*0.4 blood_red*0.5 tomato*0.3 tomato_red*0.2 fire-engine_red*0.2 cardinal*0.2 wine_red*0.4 carmine*0.3"
        " strawberry*0.1 fiery_red*0.2 reddish*0.3 rust_red*0.1",
    orange="orange*22 tangerine*1.5 amber*1.2 apricot*0.8 pumpkin*0.7 coral*0.7 peach*0.8 carrot*0.3 burnt_orange*0.6"
           " copper*0.3 rust*0.3 terracotta*0.3 orangey*0.2 ochre*0.1 persimmon*0.1 mango*0.1 papaya*0.05",
    yellow="yellow*22 gold*2 golden*2 lemon lemon_yellow*0.6 mustard*0.8 canary*0.5 canary_yellow*0.4 sunny_yellow*0.5"
           " sunflower_yellow*0.3 blonde*0.1 banana*0.2 mustard_yellow*0.4 buttery*0.1 yellowish*0.3 saffron*0.3"
           " honey*0.2 maize*0.1 straw*0.1 butter_yellow*0.2",
    green="green*22 emerald*1.2 emerald_green*0.6 lime*1.2 lime_green olive*0.8 olive_green*0.5 forest_green jade*0.7"
          " mint*0.8 mint_green*0.5 grass-green*0.3 moss*0.2 moss_green*0.3 bottle_green*0.3 pea_green*0.2 sea_green*0.2"
          " apple_green*0.3 leaf_green*0.3 sage*0.4 chartreuse*0.2 pine_green*0.2 greenish*0.3 kelly_green*0.2 shamrock*0.1"
          " fern*0.1 hunter_green*0.2",
    cyan="cyan*18 turquoise*3 teal*2.5 aqua*2 aquamarine*0.8 blue-green*0.3 turquoise_blue*0.3 cyan_blue*0.3"
         " greenish_blue*0.2 bluish_green*0.1 light_cyan*0.2 bright_turquoise*0.2 lagoon*0.1 petrol*0.1",
    blue="blue*22 navy*1.5 navy_blue*1.2 royal_blue cobalt*0.8 cobalt_blue*0.4 azure*0.8 sapphire*0.8 ultramarine*0.5"
         " cerulean*0.3 denim*0.2 ocean_blue*0.2 midnight_blue*0.3 electric_blue*0.3 bluish*0.3 marine_blue*0.2"
         " cornflower_blue*0.2 cornflower*0.1 lapis*0.1 steel_blue*0.1",
    purple="purple*20 violet*2.5 lavender*1.2 lilac*1.2 plum indigo*0.8 mauve*0.8 amethyst*0.5 aubergine*0.3 eggplant*0.3"
           " grape*0.3 orchid*0.2 royal_purple*0.3 purplish*0.3 wisteria*0.1 heather*0.1 imperial_purple*0.1 byzantium*0.05",
    pink="pink*20 rose*1.2 magenta*1.5 fuchsia*1.2 hot_pink*1.2 salmon*0.7 salmon_pink*0.3 rosy*0.5 blush*0.5 bubblegum*0.3"
         " bubblegum_pink*0.3 flamingo*0.2 pinkish*0.3 rose-pink*0.2 candy_pink*0.2 baby_pink*0.4 cerise*0.2 carnation*0.1"
         " pastel_pink*0.2 shocking_pink*0.2 rose-coloured*0.1",
    brown="brown*20 chocolate*1.2 chocolate_brown*0.6 tan coffee*0.5 coffee-brown*0.2 chestnut*0.8 bronze*0.6 mahogany*0.6"
          " caramel*0.4 hazel*0.3 beige*0.3 sienna*0.3 umber*0.3 walnut*0.2 cocoa*0.3 mocha*0.2 brownish*0.3 khaki*0.2"
          " sepia*0.1 nut-brown*0.1 wooden_brown*0.1 hazelnut*0.1 auburn*0.1 russet*0.1 earth_brown*0.1 taupe*0.1",
    white="white*22 ivory snow-white*0.7 snowy*0.3 snow_white*0.4 cream*0.7 off-white*0.5 pearl*0.5 chalk-white*0.2"
          " milky_white*0.2 pearly*0.1 whitish*0.2 eggshell*0.2 milk-white*0.2 alabaster*0.1 bone_white*0.1 chalky*0.1"
          " paper-white*0.1 lily-white*0.1 creamy_white*0.2",
    black="black*22 jet-black*0.8 jet_black*0.7 ebony*0.8 onyx*0.4 coal-black*0.3 pitch-black*0.5 pitch_black*0.3 inky*0.3"
          " raven*0.2 coal*0.1 obsidian*0.2 ink-black*0.1 sable*0.1 raven-black*0.1 midnight_black*0.1 soot-black*0.1",
    gray="gray*12 grey*12 silver*1.8 silvery*0.5 charcoal*0.5 slate*0.6 slate_gray*0.3 slate_grey*0.3 ash*0.2 ash-gray*0.1"
         " ash-grey*0.1 smoky*0.2 greyish*0.2 grayish*0.2 steel*0.2 stone-grey*0.1 stone-gray*0.1 lead-grey*0.1 pewter*0.2"
         " gunmetal*0.2 charcoal_grey*0.2 charcoal_gray*0.2 graphite*0.2 dove-grey*0.1 ashen*0.1",
)
# Said before the twelve plain words alone, where they change nothing that can be seen.
SHADES = ["dark", "dark", "light", "light", "bright", "bright", "deep", "pale", "vivid", "soft", "solid", "rich", "pure", "strong",
          "plain", "pastel", "dull", "neon-bright", "glossy", "matte", "shiny", "warm", "cool", "darkish", "intense"]
SIZE = table(
    small="small*10 little*4 tiny*4 mini*1 miniature*0.7 teeny*0.3 wee*0.4 petite*0.3 small-sized*0.3 minuscule*0.3 smallish*0.3"
          " tiny_little*0.3 itty-bitty*0.1 very_small*0.6 fairly_small*0.2 really_small*0.2 diminutive*0.1",
    medium="medium*8 medium-sized*5 mid-sized*3 medium-size mid-size average-sized*1 average-size*0.4 normal-sized*0.5"
           " regular-sized*0.4 moderately_sized*0.3 moderate*0.3 medium_sized*0.8 middle-sized*0.6 mid_sized*0.2",
    large="large*10 big*7 huge*3 giant*1.5 enormous*0.8 massive*0.6 gigantic*0.6 oversized*0.4 very_large*0.5 very_big*0.5"
          " large-sized*0.3 great_big*0.4 jumbo*0.3 really_big*0.3 colossal*0.2 immense*0.2 bulky*0.1 sizeable*0.2"
          " extra_large*0.1 mighty*0.1 big_fat*0.1",
)
SIZE_AFTER = {"small": ["small", "tiny", "little", "quite small", "very small", "rather small"],
              "medium": ["medium-sized", "medium", "of medium size", "mid-sized", "average-sized"],
              "large": ["large", "big", "huge", "very large", "quite big", "enormous", "rather large"]}

# A scenery as a noun phrase, as it stands before "background", and with its own preposition.
SCENE = table(
    sky="a_blue_sky*4 the_sky*4 a_cloudy_sky*2 a_sky_with_clouds*2 a_clear_blue_sky*2 the_blue_sky*2 clouds*2 a_daytime_sky"
        " a_summer_sky the_clouds a_bright_sky white_clouds a_sky_full_of_clouds the_open_sky*0.5 the_heavens*0.3"
        " blue_skies*0.6 fluffy_clouds*0.6 a_sunny_sky*0.6 a_day_sky*0.3 a_sky-blue_sky*0.2 a_sky*1.5 the_daytime_sky*0.4"
        " puffy_white_clouds*0.3 a_partly_cloudy_sky*0.4",
    sunset="a_sunset*5 the_sunset*4 a_sunset_sky*2 an_evening_sky*1.5 the_evening_sky dusk*1 the_setting_sun*0.7 sundown*0.6"
           " a_sundown_sky*0.3 twilight*0.6 a_glowing_sunset*0.4 an_orange_sunset*0.5 a_dusk_sky*0.5 a_sunset_glow*0.4"
           " an_evening_glow*0.3 the_evening_sun*0.3 a_red_evening_sky*0.3 a_sunset_scene*0.4 sunset_light*0.4 nightfall*0.1"
           " the_dusk*0.2 a_warm_sunset*0.3 a_twilight_sky*0.5",
    night="a_starry_night*4 the_night_sky*4 a_night_sky*3 a_starry_sky*3 a_starry_night_sky*2 a_sky_full_of_stars*2"
          " a_dark_night_sky outer_space*1 space*0.8 a_star-filled_sky*0.6 a_dark_sky_with_stars*0.8 the_starry_sky*1 the_stars*0.4"
          " a_midnight_sky*0.7 the_starry_night the_night*0.5 the_cosmos*0.2 a_sky_at_night*0.5 a_nighttime_sky*0.5"
          " a_galaxy*0.2 a_clear_night*0.3 a_black_sky_with_stars*0.3 the_dark_sky*0.4 a_night-time_sky*0.4 starlight*0.2",
    ocean="the_ocean*4 the_sea*5 an_ocean*1.5 blue_water*1.5 waves*1.5 ocean_waves*1.5 the_water*1.5 the_waves*1.5 water a_blue_sea"
          " the_blue_sea a_lake*0.7 open_water*0.5 sea_waves*0.5 a_calm_sea*0.5 the_open_sea*0.7 rippling_water*0.3 seawater*0.3"
          " a_wavy_sea*0.3 the_blue_ocean*0.5 a_sea*0.5 the_surf*0.2 a_pond*0.2 wavy_water*0.2 a_blue_lake*0.2",
    grass="grass*4 the_grass*4 a_meadow*3 green_grass*2.5 a_lawn*2.5 a_green_field*2 a_grassy_field*1.5 the_lawn*1.2 the_meadow*1.2"
          " a_green_meadow a_grass_field*0.7 a_green_lawn*0.7 a_field_of_grass*0.8 a_pasture*0.6 a_garden_lawn*0.3 turf*0.3"
          " a_grassland*0.4 a_grassy_meadow*0.5 a_patch_of_grass*0.5 short_grass*0.2 a_grassy_hill*0.2 a_park_lawn*0.2"
          " a_football_pitch*0.2 a_soccer_field*0.2 the_green_grass*0.5 a_grassy_lawn*0.3",
    sand="sand*4 the_sand*3 a_beach*4 the_beach*4 a_sandy_beach*2.5 desert_sand*1 the_desert*1.2 a_desert*1.2 a_sandy_shore*0.6"
         " sand_dunes*0.5 golden_sand*0.8 yellow_sand*0.6 the_seashore*0.4 a_sandbox*0.4 a_sandy_desert*0.4 beach_sand*0.6"
         " a_dune*0.3 dunes*0.3 sandy_ground*0.5 a_sandy_surface*0.3 the_sandy_beach*0.5 the_shore*0.3 soft_sand*0.2"
         " a_stretch_of_sand*0.2 fine_sand*0.1",
)
SCENE_NOUN = table(
    sky="sky*4 blue_sky*4 cloudy_sky*1.5 cloud*0.5 daytime_sky*0.7 cloudy*0.5 clear_sky*0.7 sky_and_clouds*0.3",
    sunset="sunset*6 evening_sky dusk*1 sunset_sky*1.5 sundown*0.5 twilight*0.5 evening*0.4",
    night="night_sky*4 starry_sky*3 starry_night*3 night*1.5 starry*1 space*0.5 nighttime*0.4 night-time*0.3 star-filled*0.2",
    ocean="ocean*4 sea*4 water*2 waves*1 blue_water ocean_waves*0.5 seaside*0.1 wave*0.3",
    grass="grass*4 meadow*2.5 green_grass*1.5 lawn*2 grassy*1 green_field*0.7 grass_field*0.5 grassland*0.2",
    sand="sand*4 beach*4 desert*2 sandy*1.5 sandy_beach*1 dune*0.2",
)
SCENE_PLACE = table(
    sky="in_the_sky*4 up_in_the_sky*2 against_the_sky*2 under_a_blue_sky*2 in_the_clouds*1 among_the_clouds*1 under_a_cloudy_sky"
        " on_a_sunny_day*0.3 in_broad_daylight*0.2 high_in_the_sky*0.5 in_the_air*0.3 beneath_a_clear_sky*0.4 by_day*0.2",
    sunset="at_sunset*5 at_dusk*2 in_the_evening*1.5 during_sunset at_sundown*1 in_front_of_the_sunset*1.5 as_the_sun_sets*0.5"
           " at_twilight*0.5 in_the_evening_light*0.4 while_the_sun_goes_down*0.3 in_the_sunset*0.5 at_the_end_of_the_day*0.1",
    night="at_night*5 in_the_night_sky*3 by_night*0.8 under_the_stars*1.5 in_space*1 under_a_starry_sky*1.5 in_outer_space*0.7"
          " among_the_stars*0.8 at_midnight*0.6 in_the_night*0.6 in_the_dark_night*0.3 in_a_starry_night*0.6 on_a_starry_night",
    ocean="at_sea*2 on_the_water*2 in_the_ocean*2 on_the_sea*2 in_the_sea*2 on_the_ocean*1.5 over_the_waves floating_on_the_sea"
          " on_the_waves*1 in_the_water*2 floating_in_the_water*1 on_a_lake*0.4 out_at_sea*0.6 above_the_sea*0.7 in_the_waves*0.4"
          " over_the_sea*1 over_the_ocean*0.7 above_the_waves*0.7 above_the_water*0.5 beside_the_sea*0.4 by_the_sea*0.4 on_the_high_seas*0.1"
          " above_the_ocean*0.6 upon_the_sea*0.2 over_the_ocean_waves*0.3",
    grass="on_the_grass*3 in_the_grass*3 in_a_meadow*2 on_a_lawn*1.5 in_the_meadow*1.5 on_the_lawn*1.5 in_a_field*1 on_green_grass"
          " in_a_green_field*0.7 on_a_meadow*0.5 in_the_field*0.5 lying_in_the_grass*0.5 on_a_field_of_grass*0.6 in_a_grassy_field*0.5 over_the_grass*0.3 on_a_green_lawn*0.5 on_grass*1 in_a_pasture*0.2 in_the_park*0.2",
    sand="on_the_beach*4 at_the_beach*3 in_the_sand*3 on_the_sand*2 in_the_desert*2 on_a_beach*1.5 on_sand*1 in_a_desert lying_on_the_sand"
         " at_the_seashore*0.3 on_a_sandy_beach*1 in_the_dunes*0.4 on_the_shore*0.3 in_a_sandbox*0.3 on_the_sandy_ground*0.2"
         " on_golden_sand*0.6 on_desert_sand*0.5 upon_the_sand*0.2 over_the_sand*0.3 above_the_beach*0.3",
)
GROUNDS = ["background"] * 12 + ["backdrop"] * 4 + ["page", "canvas", "paper", "wall"] * 2 + [
    "field", "sheet", "surface", "card", "sheet of paper", "piece of paper", "screen", "poster", "ground", "board", "setting",
    "base", "panel", "plane"]
PICTURES = ["image", "picture", "page", "canvas", "frame", "drawing", "scene", "sheet", "screen", "paper", "composition", "poster",
            "illustration", "artwork", "photo"]

ASKING = ["Can you draw {}?", "Could you draw {}?", "Could you please make {}?", "Can I have {}?", "Could I get {}?", "May I see {}?",
          "Would you draw {} for me?", "How about {}?", "What about {}?", "Will you paint {}?", "Can you show me {}?",
          "Would you mind drawing {}?", "What would {} look like?", "Is it possible to have {}?", "Can you make me {}?",
          "could you do {} for me?", "can we get {}?", "Might I have {}?", "Do you think you could draw {}?", "why not {}?"]
REQUESTS = ["draw {}", "Draw {}.", "Please draw {}.", "paint {}", "sketch {}", "show {}", "show me {}", "make {}", "create {}",
            "Create an image of {}.", "generate {}", "Generate a picture with {}", "a picture of {}", "an image of {}", "picture of {}",
            "image with {}", "an image with {}", "a drawing of {}", "drawing of {}", "illustration of {}", "a graphic of {}",
            "a painting of {}", "I want {}", "I'd like {}", "I would like to see {}", "I need {}", "Give me {}", "give us {}, please",
            "{}, please", "Let's have {}.", "Let there be {}.", "we see {}", "We can see {}.", "you can see {}", "imagine {}",
            "Imagine {}.", "there is {}", "There's {}.", "here is {}", "Here we have {}.", "It shows {}.", "The picture shows {}.",
            "The image contains {}", "this image shows {}", "a scene with {}", "scene: {}", "prompt: {}", "a poster showing {}",
            "render {}", "depict {}", "design {}", "an icon of {}", "a simple drawing of {}", "A minimalist picture of {}",
            "a flat illustration of {}", "my drawing: {}", "a card with {}", "clip art of {}", "just {}", "only {}", "simply {}",
            "nothing but {}", "{} and nothing else", "{}, nothing more", "{} - that's all", "Try {}.", "Put {} there.", "hello, {}",
            "Hi! Please paint {}. Thanks!", "Kindly produce {}.", "someone drew {}", "a child drew {}", "a vector graphic of {}"]
ENDINGS = ["please", "thanks", "thank you", "for my daughter", "for a birthday card", "high quality", "flat design", "vector art",
           "minimalist", "minimal", "simple", "clean lines", "no text", "nothing else", "without any text", "4k", "hd", "8k", "masterpiece",
           "as a logo", "for kids", "for a children's book", "by a famous artist", "best quality", "trending", "nice and simple",
           "keep it simple", "no other shapes", "and that is all", "no frame", "thank you very much", "it is for a card", "very pretty", "in a simple style", "as an icon", "for our website", "digital art", "with love",
           "like in a picture book", "as on a flag", "hand-made", "no shadows", "sharp focus", "highly detailed", "cartoon",
           "for school", "if you can", "ok?", "right away", "made by my son", "as seen in a museum", "quietly", "for the kitchen",
           "like a road sign", "with crisp edges", "studio quality", "geometric", "abstract art", "modern art", "bauhaus"]
ADJECTIVES = ["nice", "beautiful", "pretty", "lovely", "cute", "simple", "plain", "perfect", "neat", "elegant", "friendly", "cheerful",
              "lonely", "shiny", "smooth", "bold", "clean", "flat", "single-coloured", "happy", "funny", "gentle", "crisp", "sharp",
              "glowing", "bright", "fine", "handsome", "little-known", "fancy", "wonderful", "magic", "tidy", "proud", "quiet"]
# Things it cannot draw; what is said beside them still holds.
STRANGERS = ["cat", "dog", "house", "car", "tree", "bird", "boat", "robot", "king", "child", "apple", "horse", "castle", "teapot", "guitar",
             "bicycle", "mountain", "fish", "clown", "cake", "train", "bridge", "lamp", "chair", "wizard", "elephant", "dragon", "baker",
             "rabbit", "ship", "cup", "book", "clock", "window", "girl", "farmer", "bee", "plane", "rocket", "mouse"]
BESIDE = ["and a {}", "with a {}", "next to a {}", "watched by a {}", "that a {} likes", "belonging to a {}", "beside a {}",
          "drawn by a {}", "as big as a {}", "that looks like a {}", "for a {}", "such as a {} would have", "and maybe a {}"]
NUMBER = {2: ["two"] * 8 + ["2"] * 3 + ["a pair of"] * 3 + ["a couple of", "a couple of", "couple of", "pair of", "exactly two", "two identical", "twin",
                                                           "two matching", "a duo of", "just two", "two equal"],
          3: ["three"] * 8 + ["3"] * 3 + ["a trio of", "a trio of", "trio of", "not one but three", "three of the same:", "a group of three", "exactly three", "three identical", "a set of three",
                                          "three matching", "a triplet of", "just three", "three equal"]}
# Said before the sentence; nothing of it is drawn.
LEADS = ["my logo idea:", "I'm thinking of a flag.", "An idea for a {}:", "For the {}:", "Hello!", "Kids' poster!", "Next picture:", "What I need:",
         "I had a dream:", "Here is my wish.", "Simple one:", "Task:", "Today's picture:", "For a poster:", "As discussed:", "Same as before but new:",
         "Design for a {} shop:", "Our club's badge:", "Okay,", "So,", "Well,", "Hm,", "In words:", "Picture this:", "Draft 2.", "Cover of a book:",
         "A postcard:", "Birthday card:", "Minimal composition:", "Geometry lesson:", "A sign for the {}:", "Request:", "Easy:", "Title page:",
         "Wallpaper for my phone:", "Sticker for a {}:", "Let's see.", "Pls:", "hey,", "Quick one:",
         "Good morning.", "Hi there,", "One request:", "A quick request.", "For a project at school,", "Dear {},", "no {}s, please:", "No {} here:", "A quiet picture:", "A very plain picture:", "My daughter wants this:",
         "the only thing in the picture is this:", "All I want is this:", "Nothing special:", "Scene:", "Subject:", "Look:", "Now this:"]
