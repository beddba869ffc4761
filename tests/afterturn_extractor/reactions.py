"""What people say after a reply, in several languages: (text, verdict, whether it instructs)."""

BAD_AND_HOW = {
    "en": [
        "That's way too long.",
        "Could you keep it brief?",
        "I don't need all that detail, just the gist.",
        "tl;dr please",
        "one sentence would do",
        "Way too wordy for me.",
        "Less is more, please.",
        "Short answers please.",
        "Spare me the details.",
        "No essay needed.",
        "I asked for one sentence.",
        "My eyes glazed over.",
        "Thanks, but that's too long.",
        "Please number the steps.",
        "Where are the bullet points?",
        "Stop using emojis.",
        "I'd like that in metric units.",
        "From now on, check the calendar first.",
        "No, I meant the other one.",
        "It's Thursday, not Friday.",
        "You forgot the unit.",
        "You used the first name instead of the last name.",
        "You should have looked in the calendar.",
    ],
    "de": [
        "Das ist viel zu lang.",
        "Kannst du das bitte kürzer fassen?",
        "Ein Satz hätte gereicht.",
        "Bitte benutze metrische Einheiten.",
        "Danke, aber das ist zu ausführlich.",
        "Nein, ich meinte den anderen.",
    ],
    "fr": [
        "C'est beaucoup trop long.",
        "Peux-tu faire plus court ?",
        "Une phrase suffit.",
        "La prochaine fois, utilise le système métrique.",
    ],
    "es": [
        "Es demasiado largo.",
        "¿Puedes ser más breve?",
        "Con una frase basta.",
        "Gracias, pero es muy largo.",
    ],
    "it": ["È troppo lungo.", "Puoi essere più conciso?", "Basta una frase."],
    "pt": ["Está muito longo.", "Pode ser mais breve?", "Uma frase basta.", "Obrigado, mas é longo demais."],
    "nl": ["Dit is veel te lang.", "Kan het korter?"],
    "ru": ["Слишком длинно.", "Можно покороче?", "Спасибо, но слишком подробно."],
    "zh": ["太长了。", "能不能简短一点？", "一句话就够了。", "谢谢，但是太啰嗦了。", "下次请用公制单位。"],
    "ja": [
        "長すぎます。",
        "もっと短くしてください。",
        "ありがとう、でも長すぎる。",
        "次回はメートル法を使ってください。",
    ],
    "ko": ["너무 길어요.", "더 짧게 말해 주세요.", "다음부터는 미터법을 써 주세요."],
}
BAD = {
    "en": ["Wrong.", "That doesn't work.", "What are you talking about?", "Not helpful.", "👎", "Try again."],
    "de": ["Das stimmt nicht.", "Falsch!"],
    "fr": ["Ça ne marche pas.", "C'est faux."],
    "es": ["Eso está mal.", "No funciona."],
    "it": ["È sbagliato.", "Non funziona."],
    "pt": ["Está errado.", "Não funciona."],
    "nl": ["Dat klopt niet."],
    "ru": ["Это неправильно.", "Не работает."],
    "zh": ["不对。", "这不是我要的。"],
    "ja": ["違います。", "それは聞いていません。"],
    "ko": ["틀렸어요."],
}
GOOD = {
    "en": [
        "Perfect, thanks!",
        "That's the length I like.",
        "Exactly the kind of answer I wanted.",
        "Lovely, that's all I needed.",
        "Great, short and sweet.",
        "Much better!",
        "That hit the spot.",
        "Thanks, that works.",
        "You nailed it.",
        "No, that's fine, thanks.",
        "👍",
    ],
    "de": ["Perfekt, danke!", "Genau so wollte ich das.", "Viel besser!", "Sehr gut erklärt."],
    "fr": ["Parfait, merci !", "C'est exactement ce que je voulais.", "Beaucoup mieux !"],
    "es": ["¡Perfecto, gracias!", "Justo lo que quería.", "Muy útil."],
    "it": ["Perfetto, grazie!", "Esattamente quello che volevo.", "Ottimo lavoro"],
    "pt": ["Perfeito, obrigado!", "Era exatamente o que eu queria.", "Gostei muito!"],
    "nl": ["Perfect, bedankt!", "Precies wat ik zocht."],
    "ru": ["Отлично, спасибо!", "Именно то, что нужно."],
    "zh": ["完美，谢谢！", "这正是我想要的。", "很有帮助。"],
    "ja": ["完璧です、ありがとう！", "とてもわかりやすいです。", "ちょうどいい長さです。"],
    "ko": ["완벽해요, 감사합니다!", "딱 좋아요."],
}
GOES_ON = [
    "Book me a flight to Rome.",
    "What about Paris?",
    "Next question: why is the sky blue?",
    "Wie wird das Wetter morgen?",
    "Quel temps fera-t-il demain ?",
    "¿Qué tiempo hará mañana?",
    "Che tempo farà domani?",
    "Que horas são?",
    "Который час?",
    "明天天气怎么样？",
    "明日の天気は？",
    "내일 날씨 어때요?",
    "Show me the map of the USA.",
    "Hmm.",
]

# What comes after an unrelated turn and says nothing about it.
NEW_TASKS = """
Write a short poem about autumn.
Summarize this article for me: https://example.org
Can you explain how TLS works?
Please write a Python function that reverses a list.
Fix the bug in parser.py.
Rename the variable x to count in utils.py.
Add a dark mode to the settings page.
Remind me tomorrow at 9 to call Anna.
Now run the tests.
Then commit and push.
What should I cook tonight?
How long is the flight to Tokyo?
Which one is better, A or B?
Why is the sky blue?
Why do cats purr?
Tell me more about the second option.
Give me three ideas for a birthday gift.
Translate "good morning" to French.
Translate the following into German: I am happy.
Is it correct that water boils at 100 C?
Find all the files larger than 1 MB.
Check the weather in Oslo.
Let's move on to chapter two.
I need you to check the file sizes.
I want you to act as a travel guide.
I am looking for a good dentist nearby.
I need something to wear for a wedding.
My wife doesn't like fish. What can I cook?
My code doesn't work, can you help? def f(): retrun 1
The server crashed last night, find out why.
Write an email saying that the service was terrible.
What is wrong with my car if it makes a rattling noise?
Remove the second paragraph.
Delete the old logs.
Replace all tabs with spaces in main.py.
Show me the diff.
List my unread emails.
Book a table for two at 7.
Use the metric system to convert 5 miles.
Do you know any good restaurants in Rome?
Can you recommend some books on history?
Could you write me a cover letter?
Can you make a table of the planets?
Should I use tabs or spaces?
What's the shortest way to Berlin?
Make a todo list for today.
Next, create the database schema.
Also, what about the license?
And how much does it cost?
ok, next step
Continue.
go on
Open the door.
I just had lunch.
It's raining here today.
My favourite colour is green.
I love pizza.
Explain quantum computing in simple terms.
In one sentence, what is photosynthesis?
Write a haiku without using the letter e.
Never mind the cost, which laptop is the fastest?
What are the best practices for REST APIs?
Is there a better way to sort a list?
Write a longer story about a dragon.
Please review my pull request.
Plan a trip to Japan for 10 days.
Schreib mir ein Gedicht über den Herbst.
Erkläre mir bitte, wie TLS funktioniert.
Was soll ich heute kochen?
Übersetze "guten Morgen" ins Französische.
Suche alle Dateien größer als 1 MB.
Mein Auto springt nicht an, was kann ich tun?
Écris un poème sur l'automne.
Explique comment fonctionne TLS.
Quel est le meilleur restaurant de Lyon ?
Mon ordinateur ne marche pas, que faire ?
Escribe un poema sobre el otoño.
¿Qué debería cocinar hoy?
Explícame cómo funciona TLS.
Scrivi una poesia sull'autunno.
Cosa dovrei cucinare stasera?
Escreva um poema sobre o outono.
Como funciona o TLS?
写一首关于秋天的诗。
请解释一下TLS是怎么工作的。
帮我把这段话翻译成英文。
今天晚上吃什么？
秋についての詩を書いてください。
TLSの仕組みを説明してください。
東京の天気を教えて。
가을에 대한 시를 써 줘.
TLS가 어떻게 작동하는지 설명해 주세요.
Напиши стихотворение про осень.
Объясни, как работает TLS.
""".strip().splitlines()

# Many wordings of the same few wishes, as a person with a taste would say them.
COMPLAINTS = """
I'd rather see numbered steps.
Could you list those as steps?
Can I have that as a numbered list?
Steps would help.
Step by step, please.
Please break it down into steps.
I wanted steps I can follow.
A list would be easier to read.
You wrote a blob of prose again.
Can you speak as yourself, in the first person?
Say "I" when you talk about yourself.
That sounds like a brochure.
So stiff!
A bit more enthusiasm, please!
You sound bored.
This could use some energy.
Cheer up a bit!
Too dry.
Sorry, I don't do miles. Kilometres please.
What's that in Celsius?
Metric, please.
Use grams, not cups.
I can't work with Fahrenheit.
No markdown please.
Plain text, please.
Please answer in English.
Cut the chit-chat.
Just say yes or no.
Still too long.
Again way too much.
Half of that would be plenty.
That could have been one line.
I stopped reading after two lines.
Why so many words?
Short and to the point next time, please.
Hmm, long.
That's a lot of text for a simple question.
I don't have time to read all this.
Can you make it snappier?
Trim it down.
A shorter answer, please.
Do you always talk this much?
Give me the short version.
In a nutshell?
Please be brief.
Quick answer only.
Fewer words!
Condense that for me.
Too brief, tell me more.
More detail please.
That's not detailed enough.
An example would help.
Please cite your sources.
You didn't number the steps.
Please stop apologizing.
End with a question next time.
I prefer a friendly tone.
""".strip().splitlines()

PRAISES = """
Yes, like that!
That's how I like it.
Ideal length.
Nice, just what I needed.
Good, brief.
Great, nice and brief!
Perfect length.
Thanks, crisp and clear.
That's exactly it.
Wonderful.
Now that's better.
Brilliant, thank you.
Yes! More like this please.
Keep them like this.
Exactly right.
Spot on.
That'll do nicely.
Just the way I like it.
Great, that's clear.
Good one, thanks!
Clear steps, thanks!
Love the energy!
Great answer.
Super helpful, thanks.
That works, cheers.
Short. Sweet. Love it.
This is the style I want.
Yes, that's the kind of reply I was hoping for.
Great stuff, short and clear.
Very readable, thank you.
That was quick and easy to read, thanks.
Finally, a short answer!
See, that's all it takes.
Lovely and short.
Happy with that.
I'm happy with this one.
No complaints.
Can't complain, thanks.
Couldn't be better.
Much clearer now.
Nailed it, thanks
Good bot
""".strip().splitlines()
