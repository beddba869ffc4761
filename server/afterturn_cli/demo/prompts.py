"""What the scripted user asks about: training and held-out questions on disjoint topics."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question and the stems of which a reply on the topic names at least one (lower case)."""

    text: str
    names: tuple[str, ...]

    @property
    def topic(self) -> str:
        return self.names[0]


def _questions(lines: str) -> tuple[Question, ...]:
    """One question a line: text | stem, stem."""
    parsed = []
    for line in lines.strip().splitlines():
        text, stems = line.split("|")
        parsed.append(Question(text.strip(), tuple(stem.strip() for stem in stems.split(","))))
    return tuple(parsed)


TRAINING = _questions(
    """
    What is a volcano? | volcano
    How do bees make honey? | bee, honey
    What is a guitar? | guitar
    What does a plumber do? | plumb
    Why do leaves fall in autumn? | leaf, leaves
    What is bread made of? | bread
    How does a bicycle work? | bicycle, bike
    What is a desert? | desert
    Can you tell me what a lighthouse is for? | lighthouse
    What is chess? | chess
    What do elephants eat? | elephant
    What is a passport? | passport
    How does a fridge keep food cold? | fridge, refrigerator
    What is a sonnet? | sonnet
    Why do cats purr? | cat, purr
    What is democracy? | democra
    Tell me about the moon. | moon
    What is a thermometer used for? | thermometer
    What is cheese? | cheese
    How do birds fly? | bird
    What is a museum? | museum
    What does a dentist do? | dentist
    What is an earthquake? | earthquake
    What is a compass? | compass
    Why is exercise good for you? | exercis
    What is tea? | tea
    How is paper made? | paper
    What is a whale? | whale
    What is a recipe? | recipe
    What does a lawyer do? | lawyer
    Tell me about penguins. | penguin
    What is inflation? | inflation
    What is a bridge for? | bridge
    How do magnets work? | magnet
    What is yoga? | yoga
    What is a tornado? | tornado
    Why do people celebrate birthdays? | birthday
    What is a novel? | novel
    What is a solar panel? | solar
    How do fish breathe? | fish
    What is an orchestra? | orchestra
    What is a mortgage? | mortgage
    Tell me about ants. | ant
    What is a dictionary? | dictionar
    What is soap? | soap
    How does a candle burn? | candle
    What is a castle? | castle
    What does a gardener do? | garden
    What is a vaccine? | vaccin
    Why do we dream? | dream
    What is glass? | glass
    What is a tiger? | tiger
    What is football? | football
    How does a microwave heat food? | microwave
    What is a glacier? | glacier
    What is rice? | rice
    What is a clarinet? | clarinet
    Tell me about the Sahara. | sahara
    What is a budget? | budget
    What does a librarian do? | librar
    What is a rainbow? | rainbow
    What is coffee? | coffee
    How do airplanes stay in the air? | airplane, plane
    What is a violin? | violin
    What is a hammer? | hammer
    What is pollution? | pollut
    What is a kangaroo? | kangaroo
    What does a nurse do? | nurse
    What is an island? | island
    How do spiders catch food? | spider
    What is a calendar? | calendar
    What is wool? | wool
    """
)

HELD_OUT = _questions(
    """
    What is a telescope? | telescope
    How do plants grow? | plant
    What is a piano? | piano
    What does a baker do? | bak
    Why does it rain? | rain
    What is chocolate? | chocolate
    How does a clock work? | clock
    What is a forest? | forest
    Can you tell me what a battery is for? | batter
    What is poetry? | poe
    What do horses eat? | horse
    What is a postcard? | postcard
    How does a vacuum cleaner work? | vacuum
    What is a hurricane? | hurricane
    Why do dogs bark? | dog, bark
    What is a parliament? | parliament
    Tell me about the sun. | sun
    What is a microscope used for? | microscope
    What is butter? | butter
    How do submarines dive? | submarine
    What is a theatre? | theatre, theater
    What does an electrician do? | electric
    What is a river? | river
    What is a map? | map
    Why is sleep important? | sleep
    What is lemonade? | lemon
    How is wine made? | wine
    What is a dolphin? | dolphin
    What is tennis? | tennis
    What does a pilot do? | pilot
    Tell me about frogs. | frog
    What is a bank? | bank
    What is a tunnel? | tunnel
    What is cotton? | cotton
    What is a trumpet? | trumpet
    What is a mountain? | mountain
    """
)
