"""The requests of the main job: 200 prompts and 40 chats that share prefixes in many ways.

    for ask in Workload(seed, vocabulary).asks(history): ...     # history grows by one Done an answered request

Everything is drawn from one seed. Sizes are chosen so that two engines of 300 blocks evict all the
time, and that most prefixes are met again before and after they are gone.
"""
import dataclasses
import random

from real_engines import BLOCK, MAX_LEN, MODEL

PIECES = [
    "The river was low that summer, and the ferry lay on its side in the mud. ",
    "def merge(a, b):\n    out = []\n\twhile a and b:\n        out.append(min(a, b))\r\n    return out\n\n",
    '{"id": 4711, "price": -12.50e3, "tags": ["x", "y"], "path": "C:\\\\tmp\\\\new"}\n',
    "In 1987 there were 12345678 of them; by 2024, 0.5 % were left (see §4.2, p. 17–23). ",
    "Größenänderung, naïve façade, Łódź, œuvre; cafe\u0301 and café, A\u030angstro\u0308m. ",
    "今天天气很好,我们去公园散步吧。東京都の人口は約千四百万人です。 ",
    "Привет, мир! Как дела? Съешь же ещё этих мягких французских булок. ",
    "مرحبا بالعالم، كيف حالك اليوم؟ שלום עולם ",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ☕️ ... !!! ??? -->> <<== \u200b\u00a0\u3000end ",
    "नमस्ते दुनिया, आप कैसे हैं? สวัสดีชาวโลก ",
    "I'll, you've, THEY'RE, we'd; O'Neill's 'quoted'  words   with    spaces\t\ttabs\n\n\n",
    "<|im_start|>user\nnot a turn<|im_end|>\n<think>\nhm\n</think> <tool_call> <|endoftext|> ",
    "https://example.org/a?b=c&d=%20e#f user@example.org 192.168.0.1 2001:db8::1 ",
    "SELECT t.a, COUNT(*) FROM t WHERE t.b IN (1, 2, 3) GROUP BY t.a; -- done\n",
]
WORDS = ("water stone river light engine table paper number garden window market summer winter "
         "letter bridge circle people little great small before after under between").split()
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather at a place, \"now\" or later.",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "Town & country"},
            "days": {"type": "integer", "minimum": 0, "default": 1}}, "required": ["place"]}}},
    {"type": "function", "function": {
        "name": "search", "description": "Suche im Archiv — schnell",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}},
]


@dataclasses.dataclass
class Ask:
    kind: str
    path: str
    body: dict
    salt: str | None = None
    conversation: "Conversation | None" = None


@dataclasses.dataclass
class Done:
    """An answered request: what a later one may repeat or go on with."""
    ask: Ask
    prompt: list
    output: list
    text: str


class Conversation:
    def __init__(self, number, system, system_role="system", tools=None, more=None):
        self.number = number
        self.rng = random.Random(1000 + number)
        self.messages = [{"role": system_role, "content": system}] if system else []
        self.tools = tools
        self.more = more or {}
        self.turn = 0

    def next_body(self):
        self.turn += 1
        if self.messages and self.messages[-1]["role"] == "tool" and self.number == 3:
            return self.body()  # the model is to go on from the tool's result
        content = prose(self.rng, self.rng.randint(3, 90))
        if self.turn == 3:
            content = [{"type": "text", "text": content}, {"type": "text", "text": "In short?"}]
        self.messages.append({"role": "user", "content": content})
        if self.number == 5 and self.turn in (2, 4):
            self.messages.append({"role": "assistant", "content": "Well, the first of these"})
            return {**self.body(), "add_generation_prompt": False, "continue_final_message": True}
        return self.body()

    def body(self):
        body = {"messages": [dict(m) for m in self.messages], **self.more}
        if self.tools:
            body["tools"] = self.tools
        return body

    def answered(self, text):
        answer = {"role": "assistant", "content": text}
        if self.messages[-1]["role"] == "assistant":
            self.messages[-1]["content"] += text
        elif self.tools and self.turn % 2 == 1:
            call = {"id": f"call_{self.turn}", "type": "function", "function": {
                "name": "get_weather",
                "arguments": '{"place": "Łódź", "days": %d}' % self.turn}}
            field = "reasoning" if self.turn == 1 else "reasoning_content"
            self.messages.append({**answer, "tool_calls": [call], field: "Let me look.\n"})
            self.messages.append({"role": "tool", "tool_call_id": call["id"],
                                  "content": '{"sky":"clear","degrees":%d}' % (10 + self.turn)})
        else:
            self.messages.append(answer)


def prose(rng, words):
    """About `words` words, of all kinds of text."""
    out, n = [], 0
    while n < words:
        if rng.random() < 0.35:
            piece = rng.choice(PIECES)
        else:
            piece = " ".join(rng.choices(WORDS, k=rng.randint(2, 15))) + rng.choice([" ", ". ", ",\n"])
        out.append(piece)
        n += max(1, piece.count(" "))
    return "".join(out)




class Workload:
    PROMPTS, CHATS = 200, 40

    def __init__(self, seed, vocabulary):
        self.rng = random.Random(seed)
        self.vocabulary = vocabulary
        self.texts = [prose(random.Random(f"{seed}.{i}"), n)
                      for i, n in enumerate([300, 120, 420, 60, 200, 480, 90, 350])]
        self.id_lists = [self.ids(n) for n in (700, 224, 1100, 95, 512, 33)]
        self.conversations = self.make_conversations()

    def make_conversations(self):
        shared = [prose(random.Random(77 + i), 150 + 200 * i) for i in range(3)]
        return [
            Conversation(0, shared[0]), Conversation(1, shared[0]),
            Conversation(2, shared[1], tools=TOOLS), Conversation(3, shared[1], tools=TOOLS),
            Conversation(4, shared[2], system_role="developer"),
            Conversation(5, None, more={"chat_template_kwargs": {"enable_thinking": False}}),
            Conversation(6, shared[0], more={"cache_salt": "tenant-1"}),
            Conversation(7, shared[2], tools=TOOLS, more={"tool_choice": "none"}),
        ]

    def ids(self, n):
        return [self.rng.randrange(self.vocabulary) for _ in range(n)]

    def asks(self, history):
        order = ["prompt"] * self.PROMPTS + ["chat"] * self.CHATS
        self.rng.shuffle(order)
        for number, which in enumerate(order):
            ask = self.next_chat() if which == "chat" else self.next_prompt(number, history)
            yield self.finish(ask)

    def finish(self, ask):
        body = {"model": MODEL, **ask.body, "temperature": 0, "return_token_ids": True,
                "max_tokens": self.rng.choice([1, 1, 2, 5, 17, 33, 40])}
        if self.rng.random() < 0.35:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        ask.body = body
        ask.salt = body.get("cache_salt")
        return ask

    def next_chat(self):
        conversation = self.rng.choice([c for c in self.conversations if c.turn < 5])
        return Ask(f"chat {conversation.number} turn {conversation.turn + 1}",
                   "/v1/chat/completions", conversation.next_body(), conversation=conversation)

    def next_prompt(self, number, history):
        kind, body = getattr(self, "draw_" + self.rng.choice(self.KINDS))(history)
        return Ask(kind, "/v1/completions", body)

    KINDS = (["text"] * 6 + ["ids"] * 4 + ["exact"] * 3 + ["again"] * 2 + ["on_ids"] * 2
             + ["on_text"] * 2 + ["salted_text", "salted_ids", "listed", "cut",
                "long", "short"])

    def one_of(self, prefixes):
        """Some prefixes are common, others rare."""
        return self.rng.choices(prefixes, [1 / (i + 1) for i in range(len(prefixes))])[0]

    def long_text(self):
        return self.one_of(self.texts) + prose(self.rng, self.rng.randint(0, 250))

    def long_ids(self):
        return self.one_of(self.id_lists) + self.ids(self.rng.randint(1, 400))

    def draw_text(self, _):
        return "text", {"prompt": self.long_text()}

    def draw_ids(self, _):
        return "ids", {"prompt": self.long_ids()}

    def draw_exact(self, _):
        tokens = self.long_ids()
        size = max(BLOCK, len(tokens) // BLOCK * BLOCK)
        tokens = (tokens * 2)[:size + self.rng.choice([0, 0, 1])]
        return f"ids, {len(tokens) % BLOCK} over the block", {"prompt": tokens}

    def earlier(self, history, text_only=False):
        fit = [d for d in history if len(d.prompt) < 2000 and d.ask.path == "/v1/completions"
               and (not text_only or isinstance(d.ask.body["prompt"], str))]
        return self.rng.choice(fit[-40:]) if fit else None

    def same_salt(self, done, body):
        return {**body, "cache_salt": done.ask.salt} if done.ask.salt else body

    def draw_again(self, history):
        done = self.earlier(history)
        if done is None:
            return self.draw_text(history)
        keep = {k: done.ask.body[k] for k in ("prompt", "add_special_tokens") if k in done.ask.body}
        return "again", self.same_salt(done, keep)

    def draw_on_ids(self, history):
        done = self.earlier(history)
        if done is None:
            return self.draw_ids(history)
        more = self.ids(self.rng.randint(0, 60))
        return "goes on, ids", self.same_salt(done, {"prompt": done.prompt + done.output + more})

    def draw_on_text(self, history):
        done = self.earlier(history, text_only=True)
        if done is None:
            return self.draw_text(history)
        text = done.ask.body["prompt"] + done.text + prose(self.rng, self.rng.randint(0, 30))
        return "goes on, text", self.same_salt(done, {"prompt": text})

    def draw_salted_text(self, _):
        return "text, salted", {"prompt": self.long_text(),
                                "cache_salt": self.rng.choice(["tenant-1", "Größe 2", "3"])}

    def draw_salted_ids(self, _):
        return "ids, salted", {"prompt": self.long_ids(), "cache_salt": self.rng.choice("ab")}

    def draw_listed(self, _):
        prompt = self.long_text() if self.rng.random() < 0.5 else self.long_ids()
        return "in a list", {"prompt": [prompt]}

    def draw_cut(self, _):
        text = self.rng.choice(self.texts)
        return "cut text", {"prompt": text[:self.rng.randint(1, len(text))],
                            "add_special_tokens": False}

    def draw_long(self, _):
        # Nearly the greatest length: it pushes out half of what the engine holds.
        tokens = self.one_of(self.id_lists)
        return "long", {"prompt": tokens + self.ids(self.rng.randint(2600, MAX_LEN - 60) - len(tokens))}

    def draw_short(self, _):
        return "short", {"prompt": self.one_of(self.id_lists)[:self.rng.randint(1, 2 * BLOCK + 1)]}

    def beside(self, history):
        """A body for one engine directly: makes engines hold different lengths of one prefix."""
        recent = [d for d in history[-12:] if len(d.prompt) > 3 * BLOCK]
        tokens = self.rng.choice(recent).prompt if recent else self.id_lists[0]
        return {"model": MODEL, "prompt": tokens[:self.rng.randint(2 * BLOCK, len(tokens))],
                "max_tokens": 1, "temperature": 0, "return_token_ids": True}
