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
           " filled_circle*0.4 solid_circle*0.4 round_disc*0.4 round_dot*0.3 blob*0.2 pellet*0.1 bead*0.2 globe*0.3"
          " roundel*0.2 polka_dot*0.2 oval*0.15 ellipse*0.1 balloon*0.15 button*0.1 marble*0.1 planet*0.1 plate*0.05"
          " round_thing*0.3 round_ball*0.2 billiard_ball*0.05 full_moon*0.05 round_patch*0.1",
    square="square*14 box*3 block*3 cube*1.5 tile square_shape*0.5 four-sided_shape*0.2 square_block*0.4 square_box*0.3"
           " square_tile*0.3 brick*0.2 quadrilateral*0.1"
          " rectangle*0.2 four-cornered_shape*0.1 regular_quadrilateral*0.05 window*0.05 crate*0.05 dice*0.05"
          " four-sided_figure*0.15 quad*0.1 solid_square*0.2 square_patch*0.15 square_thing*0.1"
          " equal-sided_rectangle*0.03",
    triangle="triangle*14 triangular_shape three-sided_shape*0.7 pyramid*0.7 wedge*0.3 three-cornered_shape*0.2 delta*0.1"
             " equilateral_triangle*0.3 trigon*0.1 three-sided_figure*0.2"
          " cone*0.1 roof*0.05 tent*0.08 tri*0.1 solid_triangle*0.2 three-sided_polygon*0.2 triangular_thing*0.1"
          " triangle_shape*0.4 triangular_figure*0.1 isosceles_triangle*0.1",
    star="star*14 five-pointed_star*1.2 star_shape starlet*0.2 5-pointed_star*0.4 five-point_star*0.4"
         " pointed_star*0.3 starburst*0.2 pentagram*0.2 asterisk_star*0.05 twinkle*0.05"
          " starfish*0.1 asterisk*0.1 star_symbol*0.3 star_icon*0.2 five-armed_star*0.1 sheriff_star*0.05"
          " christmas_star*0.1 little_starlet*0.05 regular_star*0.1 solid_star*0.1",
    heart="heart*14 heart_shape*1.5 love_heart*1.2 valentine*0.5 heart_symbol*0.5 valentine_heart*0.4 heart_icon*0.3"
          " sweetheart*0.1 love_symbol*0.2"
          " ace_of_hearts*0.05 love_hart*0.03 heart-shaped_thing*0.1 heart_figure*0.1 solid_heart*0.1 heart_sign*0.2"
          " little_valentine*0.05",
    ring="ring*14 hoop*2.5 donut*2 doughnut*1.5 annulus*0.5 hollow_circle*0.8 torus*0.4 circular_ring*0.4 round_ring*0.3"
         " loop*0.4 band*0.1 circle_with_a_hole*0.4 open_circle*0.2 bagel*0.2 ring_shape*0.5 wheel_rim*0.05 hula_hoop*0.1"
         " life_ring*0.1"
          " wheel*0.1 tyre*0.1 tire*0.05 washer*0.1 halo*0.1 bracelet*0.05 lifebelt*0.08 lifebuoy*0.05"
          " ring-shaped_thing*0.1 o-ring*0.1 letter_O*0.05 thick_ring*0.2 ring_doughnut*0.05 empty_circle*0.2",
    cross="cross*14 plus_sign*2.5 plus*2.5 plus_symbol cross_shape*0.8 plus_shape*0.5 greek_cross*0.2 cross_sign*0.3"
          " cross_symbol*0.3 +_sign*0.3 medical_cross*0.2 plus_mark*0.2"
          " crosslet*0.03 swiss_cross*0.15 red-cross_symbol*0.02 plus_icon*0.2 plus-shaped_cross*0.1 solid_cross*0.1"
          " addition_sign*0.1 upright_cross*0.15 add_sign*0.1 four-armed_cross*0.05",
    hexagon="hexagon*14 six-sided_shape*1.5 hex*0.8 hexagonal_shape*0.8 six-sided_polygon*0.8 honeycomb_cell*0.5"
            " regular_hexagon*0.4 6-sided_shape*0.3 hexagon_shape*0.4 six-sided_figure*0.4 hexagonal_tile*0.3"
            " honeycomb*0.3 six-cornered_shape*0.2"
          " hexagonal_figure*0.2 hexagon_tile*0.2 six-edged_shape*0.1 hex_nut*0.1 six-angled_shape*0.05"
          " solid_hexagon*0.1 hexagonal_thing*0.1 hex_shape*0.2 bee_cell*0.03 six-sider*0.02",
    crescent="crescent*12 crescent_moon*4 moon*4 half-moon*1.2 half_moon sickle*0.6 moon_shape*0.5 crescent_shape*0.8"
             " moon_crescent*0.3 lunar_crescent*0.3 new_moon*0.3 moon_sickle*0.3 lune*0.1 sickle_moon*0.3 quarter_moon*0.2"
          " waning_moon*0.1 waxing_moon*0.1 young_moon*0.15 banana_shape*0.03 moon_symbol*0.2 moonlet*0.03"
          " half_a_moon*0.1 c-shaped_moon*0.05 sickle_shape*0.15 slim_moon*0.05",
    arrow="arrow*14 arrow_pointing_right*2 right-pointing_arrow right_arrow*0.8 pointer*0.8 arrow_shape*0.5 arrow_sign*0.4"
          " arrow_to_the_right*0.2 arrow_symbol*0.3 rightward_arrow*0.3 dart*0.1 right-facing_arrow*0.3"
          " direction_arrow*0.1"
          " chevron_arrow*0.03 cursor_arrow*0.05 pointing_arrow*0.15 arrow_pointing_to_the_right*0.4"
          " arrow_facing_right*0.2 arrow_icon*0.2 arrow_that_points_right*0.3 east-pointing_arrow*0.05"
          " signpost_arrow*0.03 solid_arrow*0.1 forward_arrow*0.1",
    diamond="diamond*14 rhombus*3 lozenge*1.5 diamond_shape*1.2 rhomb*0.3 kite*0.4 tilted_square*0.2 gem*0.3"
            " diamond-shaped_figure*0.2 rhombus_shape*0.3 jewel*0.1"
          " square_on_its_corner*0.2 square_standing_on_its_corner*0.15 square_on_its_point*0.15"
          " square_turned_by_45_degrees*0.05 card_diamond*0.1 rhombic_shape*0.15 rhomboid*0.3 diamond_symbol*0.2"
          " solid_diamond*0.1 losange*0.05 rotated_square*0.1",
    flower="flower*14 blossom*3 bloom*1.5 daisy*1 flower_shape*0.7 flower_head*0.3 posy*0.1 floret*0.2 floral_shape*0.2"
           " wildflower*0.2 petal_flower*0.2 little_bloom*0.05 buttercup*0.1 poppy*0.1 flowerhead*0.1"
          " rose*0.15 tulip*0.1 sunflower*0.1 lily*0.05 flower_symbol*0.2 petalled_flower*0.1"
          " five-petalled_flower*0.1 marguerite*0.05 anemone*0.03 solid_flower*0.05 flower_icon*0.2"
          " little_flower_head*0.05 pansy*0.05",
)
PLURAL = {"daisy": "daisies", "posy": "posies", "poppy": "poppies", "torus": "tori", "annulus": "annuli", "cross": "crosses",
          "box": "boxes", "greek cross": "greek crosses", "medical cross": "medical crosses", "plus": "pluses",
          "hex": "hexes", "rhombus": "rhombuses", "circle with a hole": "circles with a hole",
          "arrow pointing right": "arrows pointing right", "arrow to the right": "arrows to the right", "round": "round shapes"}

# What several shapes have in common, and the words for it: queries name shapes so, captions never do.
KIND = {"round": ["circle", "ring"], "angular": ["square", "triangle", "hexagon", "diamond"],
        "pointed": ["star", "triangle", "arrow"]}
KIND_WORDS = table(
    round="round*6 circular*4 rounded curved*0.5 disc-shaped*0.3",
    angular="angular*6 cornered*2 straight-edged polygonal with_corners",
    pointed="pointed*6 pointy*3 spiky*2 sharp-pointed with_points",
)

COLOUR = table(
    red="red*22 crimson*1.5 scarlet*1.5 ruby ruby_red*0.5 cherry*0.4 cherry_red*0.5 vermilion*0.5 maroon*0.8 burgundy*0.7"
        " brick_red*0.4 blood_red*0.5 tomato*0.3 tomato_red*0.2 fire-engine_red*0.2 cardinal*0.2 wine_red*0.4 carmine*0.3"
        " strawberry*0.1 fiery_red*0.2 reddish*0.3 rust_red*0.1"
          " garnet*0.15 cinnabar*0.05 poppy_red*0.1 lipstick_red*0.1 rose_red*0.1 ruddy*0.05 signal_red*0.1"
          " flaming_red*0.1 rosso*0.02 pillar-box_red*0.1 raspberry_red*0.05",
    orange="orange*22 tangerine*1.5 amber*1.2 apricot*0.8 pumpkin*0.7 coral*0.7 peach*0.8 carrot*0.3 burnt_orange*0.6"
           " copper*0.3 rust*0.3 terracotta*0.3 orangey*0.2 ochre*0.1 persimmon*0.1 mango*0.1 papaya*0.05"
          " marigold*0.1 ginger*0.1 fiery_orange*0.1 clementine*0.05 mandarin*0.1 orange-coloured*0.2"
          " signal_orange*0.05 salamander*0.01 cinnamon_orange*0.02",
    yellow="yellow*22 gold*2 golden*2 lemon lemon_yellow*0.6 mustard*0.8 canary*0.5 canary_yellow*0.4 sunny_yellow*0.5"
           " sunflower_yellow*0.3 blonde*0.1 banana*0.2 mustard_yellow*0.4 buttery*0.1 yellowish*0.3 saffron*0.3"
           " honey*0.2 maize*0.1 straw*0.1 butter_yellow*0.2"
          " primrose*0.1 custard*0.05 sun-yellow*0.1 corn_yellow*0.05 gilded*0.05 gold-coloured*0.2"
          " lemon-coloured*0.1 daffodil*0.05 egg-yolk_yellow*0.05 amber_yellow*0.05 champagne*0.03",
    green="green*22 emerald*1.2 emerald_green*0.6 lime*1.2 lime_green olive*0.8 olive_green*0.5 forest_green jade*0.7"
          " mint*0.8 mint_green*0.5 grass-green*0.3 moss*0.2 moss_green*0.3 bottle_green*0.3 pea_green*0.2 sea_green*0.2"
          " apple_green*0.3 leaf_green*0.3 sage*0.4 chartreuse*0.2 pine_green*0.2 greenish*0.3 kelly_green*0.2 shamrock*0.1"
          " fern*0.1 hunter_green*0.2"
          " viridian*0.1 pistachio*0.15 avocado*0.1 army_green*0.1 pea*0.02 neon_green*0.2 lawn_green*0.1"
          " parrot_green*0.03 malachite*0.05 spring_green*0.1 racing_green*0.05 grassy_green*0.1"
          " emerald-coloured*0.05",
    cyan="cyan*18 turquoise*3 teal*2.5 aqua*2 aquamarine*0.8 blue-green*0.3 turquoise_blue*0.3 cyan_blue*0.3"
         " greenish_blue*0.2 bluish_green*0.1 light_cyan*0.2 bright_turquoise*0.2 lagoon*0.1 petrol*0.1"
          " teal_blue*0.15 aqua_blue*0.15 turquoise_green*0.1 teal_green*0.05 robin-egg_blue*0.05 ice_blue*0.05"
          " cyan-coloured*0.1 peacock*0.03 aqua-coloured*0.05",
    blue="blue*22 navy*1.5 navy_blue*1.2 royal_blue cobalt*0.8 cobalt_blue*0.4 azure*0.8 sapphire*0.8 ultramarine*0.5"
         " cerulean*0.3 denim*0.2 ocean_blue*0.2 midnight_blue*0.3 electric_blue*0.3 bluish*0.3 marine_blue*0.2"
         " cornflower_blue*0.2 cornflower*0.1 lapis*0.1 steel_blue*0.1"
          " prussian_blue*0.15 indigo_blue*0.1 ink_blue*0.1 deep-sea_blue*0.05 police_blue*0.03 gentian_blue*0.05"
          " oxford_blue*0.05 dark-blue*0.2 dodger_blue*0.05 sapphire_blue*0.15 true_blue*0.05",
    purple="purple*20 violet*2.5 lavender*1.2 lilac*1.2 plum indigo*0.8 mauve*0.8 amethyst*0.5 aubergine*0.3 eggplant*0.3"
           " grape*0.3 orchid*0.2 royal_purple*0.3 purplish*0.3 wisteria*0.1 heather*0.1 imperial_purple*0.1 byzantium*0.05"
          " mulberry*0.1 periwinkle*0.05 deep_violet*0.1 dark_violet*0.1 lavender_purple*0.1 magenta-purple*0.03"
          " blackcurrant*0.03 regal_purple*0.05 violet-coloured*0.1 iris*0.03",
    pink="pink*20 rose*1.2 magenta*1.5 fuchsia*1.2 hot_pink*1.2 salmon*0.7 salmon_pink*0.3 rosy*0.5 blush*0.5 bubblegum*0.3"
         " bubblegum_pink*0.3 flamingo*0.2 pinkish*0.3 rose-pink*0.2 candy_pink*0.2 baby_pink*0.4 cerise*0.2 carnation*0.1"
         " pastel_pink*0.2 shocking_pink*0.2 rose-coloured*0.1"
          " piggy_pink*0.05 coral_pink*0.15 neon_pink*0.1 dusty_pink*0.1 rosé*0.02 peony*0.03 barbie_pink*0.05"
          " cherry-blossom_pink*0.05 light_rose*0.1 rosebud*0.03",
    brown="brown*20 chocolate*1.2 chocolate_brown*0.6 tan coffee*0.5 coffee-brown*0.2 chestnut*0.8 bronze*0.6 mahogany*0.6"
          " caramel*0.4 hazel*0.3 beige*0.3 sienna*0.3 umber*0.3 walnut*0.2 cocoa*0.3 mocha*0.2 brownish*0.3 khaki*0.2"
          " sepia*0.1 nut-brown*0.1 wooden_brown*0.1 hazelnut*0.1 auburn*0.1 russet*0.1 earth_brown*0.1 taupe*0.1"
          " cinnamon*0.1 nutmeg*0.05 toffee*0.1 camel*0.1 mud-brown*0.1 wood-coloured*0.1 leather_brown*0.1"
          " rusty_brown*0.1 bark_brown*0.05 teddy_brown*0.03 sand_brown*0.03 fawn*0.05 oak*0.05",
    white="white*22 ivory snow-white*0.7 snowy*0.3 snow_white*0.4 cream*0.7 off-white*0.5 pearl*0.5 chalk-white*0.2"
          " milky_white*0.2 pearly*0.1 whitish*0.2 eggshell*0.2 milk-white*0.2 alabaster*0.1 bone_white*0.1 chalky*0.1"
          " paper-white*0.1 lily-white*0.1 creamy_white*0.2"
          " snow*0.1 blank_white*0.1 bright-white*0.2 whiter_than_white*0.02 white-coloured*0.1 vanilla*0.05"
          " porcelain*0.05 cotton-white*0.05 linen*0.03 colourless*0.03",
    black="black*22 jet-black*0.8 jet_black*0.7 ebony*0.8 onyx*0.4 coal-black*0.3 pitch-black*0.5 pitch_black*0.3 inky*0.3"
          " raven*0.2 coal*0.1 obsidian*0.2 ink-black*0.1 sable*0.1 raven-black*0.1 midnight_black*0.1 soot-black*0.1"
          " charcoal_black*0.1 night-black*0.1 deep-black*0.1 coal_black*0.1 ink*0.03 black-coloured*0.1 pitchy*0.02"
          " licorice*0.03 carbon_black*0.05 piano_black*0.03",
    gray="gray*12 grey*12 silver*1.8 silvery*0.5 charcoal*0.5 slate*0.6 slate_gray*0.3 slate_grey*0.3 ash*0.2 ash-gray*0.1"
         " ash-grey*0.1 smoky*0.2 greyish*0.2 grayish*0.2 steel*0.2 stone-grey*0.1 stone-gray*0.1 lead-grey*0.1 pewter*0.2"
         " gunmetal*0.2 charcoal_grey*0.2 charcoal_gray*0.2 graphite*0.2 dove-grey*0.1 ashen*0.1"
          " cement*0.05 concrete*0.05 iron_grey*0.05 mouse-grey*0.1 mouse_grey*0.05 gravel*0.03 battleship_grey*0.05"
          " elephant_grey*0.05 silver_grey*0.15 silver-gray*0.1 stone*0.05 rat-grey*0.01 neutral_gray*0.1",
)
# Said before the twelve plain words alone, where they change nothing that can be seen.
SHADES = ["dark", "dark", "light", "light", "bright", "bright", "deep", "pale", "vivid", "soft", "solid", "rich", "pure", "strong",
          "plain", "pastel", "dull", "neon-bright", "glossy", "matte", "shiny", "warm", "cool", "darkish", "intense", "faded", "muted", "saturated",
          "luminous", "fluorescent", "medium", "medium-dark", "classic", "very dark", "very light", "lightish", "brilliant", "clear", "mid", "delicate"]
SIZE = table(
    small="small*10 little*4 tiny*4 mini*1 miniature*0.7 teeny*0.3 wee*0.4 petite*0.3 small-sized*0.3 minuscule*0.3 smallish*0.3"
          " tiny_little*0.3 itty-bitty*0.1 very_small*0.6 fairly_small*0.2 really_small*0.2 diminutive*0.1"
          " extra_small*0.2 tiniest*0.1 super_small*0.15 pretty_small*0.15 modest*0.1 baby*0.1 pint-sized*0.1"
          " pocket-sized*0.1 minute*0.15 micro*0.1 puny*0.05 small-scale*0.05",
    medium="medium*8 medium-sized*5 mid-sized*3 medium-size mid-size average-sized*1 average-size*0.4 normal-sized*0.5"
           " regular-sized*0.4 moderately_sized*0.3 moderate*0.3 medium_sized*0.8 middle-sized*0.6 mid_sized*0.2"
          " medium-large*0.02 neither_big_nor_small*0.1 moderately_big*0.1 middling*0.15 fair-sized*0.1"
          " moderate-sized*0.1 mid-size*0.2 normal*0.1 average*0.2 ordinary-sized*0.1",
    large="large*10 big*7 huge*3 giant*1.5 enormous*0.8 massive*0.6 gigantic*0.6 oversized*0.4 very_large*0.5 very_big*0.5"
          " large-sized*0.3 great_big*0.4 jumbo*0.3 really_big*0.3 colossal*0.2 immense*0.2 bulky*0.1 sizeable*0.2"
          " extra_large*0.1 mighty*0.1 big_fat*0.1"
          " vast*0.2 extra_big*0.15 super_big*0.15 tremendous*0.1 monumental*0.05 mega*0.15 hulking*0.05"
          " king-size*0.05 really_large*0.2 pretty_big*0.2 grand*0.1 towering*0.1 whopping*0.1 substantial*0.1",
)
SIZE_AFTER = {"small": ["small", "tiny", "little", "quite small", "very small", "rather small"],
              "medium": ["medium-sized", "medium", "of medium size", "mid-sized", "average-sized"],
              "large": ["large", "big", "huge", "very large", "quite big", "enormous", "rather large"]}

# A scenery as a noun phrase, as it stands before "background", and with its own preposition.
SCENE = table(
    sky="a_blue_sky*4 the_sky*4 a_cloudy_sky*2 a_sky_with_clouds*2 a_clear_blue_sky*2 the_blue_sky*2 clouds*2 a_daytime_sky"
        " a_summer_sky the_clouds a_bright_sky white_clouds a_sky_full_of_clouds the_open_sky*0.5 the_heavens*0.3"
        " blue_skies*0.6 fluffy_clouds*0.6 a_sunny_sky*0.6 a_day_sky*0.3 a_sky-blue_sky*0.2 a_sky*1.5 the_daytime_sky*0.4"
        " puffy_white_clouds*0.3 a_partly_cloudy_sky*0.4"
          " the_azure*0.1 an_azure_sky*0.3 a_midday_sky*0.2 a_sky_with_a_few_clouds*0.4 a_clear_sky*0.8"
          " the_clear_sky*0.4 blue_sky*1 sky*1 a_spring_sky*0.1 the_firmament*0.1 heaven*0.2 a_bright_blue_sky*0.5"
          " drifting_clouds*0.2 a_light_blue_sky*0.4 the_daylight*0.1",
    sunset="a_sunset*5 the_sunset*4 a_sunset_sky*2 an_evening_sky*1.5 the_evening_sky dusk*1 the_setting_sun*0.7 sundown*0.6"
           " a_sundown_sky*0.3 twilight*0.6 a_glowing_sunset*0.4 an_orange_sunset*0.5 a_dusk_sky*0.5 a_sunset_glow*0.4"
           " an_evening_glow*0.3 the_evening_sun*0.3 a_red_evening_sky*0.3 a_sunset_scene*0.4 sunset_light*0.4 nightfall*0.1"
           " the_dusk*0.2 a_warm_sunset*0.3 a_twilight_sky*0.5"
          " sunset*1 dawn*0.2 a_sunrise*0.2 sunrise*0.2 the_golden_hour*0.2 an_evening*0.2 the_evening*0.3"
          " a_fiery_sunset*0.2 a_colourful_sunset*0.3 a_colorful_sunset*0.2 an_evening_horizon*0.1 the_afterglow*0.1"
          " a_sky_at_dusk*0.4 a_sky_at_sunset*0.6 a_setting_sun*0.4 an_orange_evening_sky*0.2"
          " the_last_light_of_the_day*0.1",
    night="a_starry_night*4 the_night_sky*4 a_night_sky*3 a_starry_sky*3 a_starry_night_sky*2 a_sky_full_of_stars*2"
          " a_dark_night_sky outer_space*1 space*0.8 a_star-filled_sky*0.6 a_dark_sky_with_stars*0.8 the_starry_sky*1 the_stars*0.4"
          " a_midnight_sky*0.7 the_starry_night the_night*0.5 the_cosmos*0.2 a_sky_at_night*0.5 a_nighttime_sky*0.5"
          " a_galaxy*0.2 a_clear_night*0.3 a_black_sky_with_stars*0.3 the_dark_sky*0.4 a_night-time_sky*0.4 starlight*0.2"
          " night*1 stars*0.5 a_dark_starry_sky*0.4 the_milky_way*0.2 the_universe*0.2 the_darkness_of_space*0.1"
          " deep_space*0.3 a_night_full_of_stars*0.3 the_nocturnal_sky*0.1 darkness_and_stars*0.1 twinkling_stars*0.2"
          " a_starlit_sky*0.3 a_starlit_night*0.2 night_and_stars*0.1 the_dark*0.1",
    ocean="the_ocean*4 the_sea*5 an_ocean*1.5 blue_water*1.5 waves*1.5 ocean_waves*1.5 the_water*1.5 the_waves*1.5 water a_blue_sea"
          " the_blue_sea a_lake*0.7 open_water*0.5 sea_waves*0.5 a_calm_sea*0.5 the_open_sea*0.7 rippling_water*0.3 seawater*0.3"
          " a_wavy_sea*0.3 the_blue_ocean*0.5 a_sea*0.5 the_surf*0.2 a_pond*0.2 wavy_water*0.2 a_blue_lake*0.2"
          " sea*0.6 ocean*0.6 the_pacific*0.15 the_atlantic*0.15 the_mediterranean*0.1 a_bay*0.1 a_swimming_pool*0.15"
          " a_pool*0.15 a_lagoon*0.1 the_deep_blue_sea*0.2 deep_water*0.2 a_river*0.1 rolling_waves*0.2"
          " the_blue_waves*0.2 choppy_water*0.1 the_waters*0.1 a_stretch_of_water*0.1 blue_waves*0.4 salt_water*0.1"
          " the_tide*0.05",
    grass="grass*4 the_grass*4 a_meadow*3 green_grass*2.5 a_lawn*2.5 a_green_field*2 a_grassy_field*1.5 the_lawn*1.2 the_meadow*1.2"
          " a_green_meadow a_grass_field*0.7 a_green_lawn*0.7 a_field_of_grass*0.8 a_pasture*0.6 a_garden_lawn*0.3 turf*0.3"
          " a_grassland*0.4 a_grassy_meadow*0.5 a_patch_of_grass*0.5 short_grass*0.2 a_grassy_hill*0.2 a_park_lawn*0.2"
          " a_football_pitch*0.2 a_soccer_field*0.2 the_green_grass*0.5 a_grassy_lawn*0.3"
          " meadow*0.5 lawn*0.5 a_garden*0.3 a_backyard_lawn*0.1 a_prairie*0.2 a_golf_course*0.1 a_village_green*0.05"
          " fresh_grass*0.3 mown_grass*0.2 a_grassy_ground*0.2 green_fields*0.3 a_green_pasture*0.2 a_field*0.3"
          " lush_grass*0.2 tall_grass*0.1 a_green*0.1 a_carpet_of_grass*0.1",
    sand="sand*4 the_sand*3 a_beach*4 the_beach*4 a_sandy_beach*2.5 desert_sand*1 the_desert*1.2 a_desert*1.2 a_sandy_shore*0.6"
         " sand_dunes*0.5 golden_sand*0.8 yellow_sand*0.6 the_seashore*0.4 a_sandbox*0.4 a_sandy_desert*0.4 beach_sand*0.6"
         " a_dune*0.3 dunes*0.3 sandy_ground*0.5 a_sandy_surface*0.3 the_sandy_beach*0.5 the_shore*0.3 soft_sand*0.2"
         " a_stretch_of_sand*0.2 fine_sand*0.1"
          " beach*0.5 desert*0.4 the_sahara*0.15 a_sandpit*0.2 a_sandy_coast*0.1 the_seaside_sand*0.1 a_sand_dune*0.3"
          " the_dunes*0.3 desert_dunes*0.2 a_sandy_plain*0.2 warm_sand*0.2 dry_sand*0.2 sandy_soil*0.1 white_sand*0.1"
          " a_tropical_beach*0.2 the_coast*0.1",
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
        " on_a_sunny_day*0.3 in_broad_daylight*0.2 high_in_the_sky*0.5 in_the_air*0.3 beneath_a_clear_sky*0.4 by_day*0.2"
          " in_the_blue_sky*1 in_a_blue_sky*1.5 in_a_clear_sky*0.6 in_a_cloudy_sky*0.6 high_up_in_the_sky*0.7"
          " high_up_in_a_blue_sky*0.4 up_in_the_clouds*0.4 up_in_the_air*0.3 in_the_daytime*0.2 at_noon*0.2"
          " in_the_daytime_sky*0.5 across_the_sky*0.2 amid_clouds*0.2 in_the_open_sky*0.2 in_the_heavens*0.2",
    sunset="at_sunset*5 at_dusk*2 in_the_evening*1.5 during_sunset at_sundown*1 in_front_of_the_sunset*1.5 as_the_sun_sets*0.5"
           " at_twilight*0.5 in_the_evening_light*0.4 while_the_sun_goes_down*0.3 in_the_sunset*0.5 at_the_end_of_the_day*0.1"
          " in_the_evening_sky*0.8 in_a_sunset_sky*0.6 at_dawn*0.2 at_sunrise*0.2 at_nightfall*0.1"
          " in_the_glow_of_the_evening*0.2 in_the_sunset_sky*0.5 against_the_setting_sun*0.4 at_eventide*0.05"
          " before_a_sunset*0.3 in_the_golden_hour*0.1 in_the_dusk*0.2 against_the_evening_sky*0.4"
          " at_the_hour_of_sunset*0.1",
    night="at_night*5 in_the_night_sky*3 by_night*0.8 under_the_stars*1.5 in_space*1 under_a_starry_sky*1.5 in_outer_space*0.7"
          " among_the_stars*0.8 at_midnight*0.6 in_the_night*0.6 in_the_dark_night*0.3 in_a_starry_night*0.6 on_a_starry_night"
          " in_a_starry_sky*0.8 in_the_starry_sky*0.6 in_the_dark_sky*0.3 after_dark*0.3 in_the_dead_of_night*0.1"
          " in_the_dark*0.2 in_the_cosmos*0.2 in_the_universe*0.2 under_the_night_sky*0.6 at_night-time*0.2"
          " in_deep_space*0.3 during_the_night*0.3 between_the_stars*0.3 in_a_night_sky*0.8 in_the_milky_way*0.1"
          " under_a_sky_full_of_stars*0.3",
    ocean="at_sea*2 on_the_water*2 in_the_ocean*2 on_the_sea*2 in_the_sea*2 on_the_ocean*1.5 over_the_waves floating_on_the_sea"
          " on_the_waves*1 in_the_water*2 floating_in_the_water*1 on_a_lake*0.4 out_at_sea*0.6 above_the_sea*0.7 in_the_waves*0.4"
          " over_the_sea*1 over_the_ocean*0.7 above_the_waves*0.7 above_the_water*0.5 beside_the_sea*0.4 by_the_sea*0.4 on_the_high_seas*0.1"
          " above_the_ocean*0.6 upon_the_sea*0.2 over_the_ocean_waves*0.3"
          " on_water*0.4 in_water*0.4 on_the_open_sea*0.4 at_the_sea*0.3 drifting_on_the_sea*0.4"
          " drifting_in_the_ocean*0.3 in_the_pool*0.1 on_blue_water*0.5 in_the_blue_water*0.3 on_the_blue_sea*0.4"
          " amid_the_waves*0.3 among_the_waves*0.3 in_the_middle_of_the_ocean*0.2 swimming_in_the_sea*0.2"
          " riding_the_waves*0.1 on_a_river*0.1",
    grass="on_the_grass*3 in_the_grass*3 in_a_meadow*2 on_a_lawn*1.5 in_the_meadow*1.5 on_the_lawn*1.5 in_a_field*1 on_green_grass"
          " in_a_green_field*0.7 on_a_meadow*0.5 in_the_field*0.5 lying_in_the_grass*0.5 on_a_field_of_grass*0.6 in_a_grassy_field*0.5 over_the_grass*0.3 on_a_green_lawn*0.5 on_grass*1 in_a_pasture*0.2 in_the_park*0.2"
          " in_the_garden*0.3 in_a_garden*0.3 on_the_green*0.2 on_a_grassy_hill*0.2 on_the_green_grass*0.5"
          " in_green_grass*0.4 on_the_meadow*0.5 in_a_green_meadow*0.5 on_a_field*0.3 on_the_field*0.3"
          " in_the_countryside*0.1 out_on_the_lawn*0.2 lying_on_the_lawn*0.3 in_tall_grass*0.1 on_a_grassy_field*0.3"
          " on_the_pitch*0.1",
    sand="on_the_beach*4 at_the_beach*3 in_the_sand*3 on_the_sand*2 in_the_desert*2 on_a_beach*1.5 on_sand*1 in_a_desert lying_on_the_sand"
         " at_the_seashore*0.3 on_a_sandy_beach*1 in_the_dunes*0.4 on_the_shore*0.3 in_a_sandbox*0.3 on_the_sandy_ground*0.2"
         " on_golden_sand*0.6 on_desert_sand*0.5 upon_the_sand*0.2 over_the_sand*0.3 above_the_beach*0.3"
          " on_a_dune*0.2 on_dry_sand*0.2 in_the_sandpit*0.2 in_the_sahara*0.1 in_the_desert_sand*0.3"
          " on_the_coast*0.1 along_the_beach*0.2 out_in_the_desert*0.2 lying_on_the_beach*0.5 lying_in_the_sand*0.4"
          " in_sand*0.4 on_the_desert_floor*0.1 upon_the_beach*0.2 left_on_the_beach*0.2 on_the_sandy_beach*0.4",
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
            "Hi! Please paint {}. Thanks!", "Kindly produce {}.", "someone drew {}", "a child drew {}", "a vector graphic of {}",
            "what I'd like is {}", "I'd go for {}", "I fancy {}", "my wish is {}", "let me see {}", "may there be {}", "do {}", "the picture: {}", "a photo of {}",
            "a close-up of {}", "an emblem: {}", "flag: {}", "logo: {}", "a postcard of {}", "sign with {}", "wallpaper with {}", "behold {}", "look, {}",
            "we need {} here", "it should show {}", "It is to show {}.", "one wants {}", "all I need is {}", "the motif is {}", "motif: {}", "\"{}\"", "'{}'",
            "in this picture there is {}", "the image depicts {}", "visualise {}", "picture {}", "output {}", "print {}", "a stamp with {}", "an app icon: {}",
            "I am after {}", "you should see {}", "here you see {}", "to be drawn: {}", "wanted: {}"]
ENDINGS = ["please", "thanks", "thank you", "for my daughter", "for a birthday card", "high quality", "flat design", "vector art",
           "minimalist", "minimal", "simple", "clean lines", "no text", "nothing else", "without any text", "4k", "hd", "8k", "masterpiece",
           "as a logo", "for kids", "for a children's book", "by a famous artist", "best quality", "trending", "nice and simple",
           "keep it simple", "no other shapes", "and that is all", "no frame", "thank you very much", "it is for a card", "very pretty", "in a simple style", "as an icon", "for our website", "digital art", "with love",
           "like in a picture book", "as on a flag", "hand-made", "no shadows", "sharp focus", "highly detailed", "cartoon",
           "for school", "if you can", "ok?", "right away", "made by my son", "as seen in a museum", "quietly", "for the kitchen",
           "like a road sign", "with crisp edges", "studio quality", "geometric", "abstract art", "modern art", "bauhaus", "--ar 1:1", "--v 6", "--no text", "trending on artstation", "centered composition",
           "white border not needed", "nothing fancy", "no details", "kept simple", "sharp", "vector", "svg", "png", "icon style", "flat colours", "flat colors",
           "solid colours", "two-dimensional", "2d", "that's it", "and that's it", "that is all", "full stop", "you know", "I think", "as usual", "cheers",
           "many thanks", "if possible", "for a T-shirt", "for a sticker", "made with care", "as a stamp", "in good quality", "no gradient", "no outline"]
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
