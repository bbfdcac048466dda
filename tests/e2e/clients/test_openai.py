"""The official openai packages for Python and Node, and curl, against the gateway."""

import json
import subprocess

PYTHON = r"""
import json, sys
from openai import OpenAI, APIStatusError
client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
out = {"models": [m.id for m in client.models.list().data]}
messages = [{"role": "system", "content": "Be brief. " * 40}, {"role": "user", "content": "hello"}]
plain = client.chat.completions.create(model="tiny", messages=messages, max_tokens=8)
out["plain"] = plain.choices[0].message.content
out["usage"] = plain.usage.prompt_tokens
text, usage, finish = "", None, None
for chunk in client.chat.completions.create(model="tiny", messages=messages, max_tokens=8, stream=True,
                                            stream_options={"include_usage": True}):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
        finish = choice.finish_reason or finish
out["streamed"], out["stream_usage"], out["finish"] = text, usage.prompt_tokens, finish
done = client.completions.create(model="tiny", prompt=[1, 2, 3], max_tokens=3)
out["ids"] = done.usage.prompt_tokens
raw = client.chat.completions.with_raw_response.create(model="tiny", messages=messages, max_tokens=1)
out["request_id"] = raw.headers.get("x-request-id")
try:
    client.chat.completions.create(model="nobody", messages=messages)
except APIStatusError as e:
    out["unknown"] = e.status_code
print(json.dumps(out))
"""

NODE = r"""
const OpenAI = require("openai");
(async () => {
  const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "none", maxRetries: 0 });
  const out = { models: (await client.models.list()).data.map((m) => m.id) };
  const messages = [{ role: "system", content: "Be brief. ".repeat(40) }, { role: "user", content: "hello" }];
  const plain = await client.chat.completions.create({ model: "tiny", messages, max_tokens: 8 });
  out.plain = plain.choices[0].message.content;
  out.usage = plain.usage.prompt_tokens;
  out.streamed = "";
  const stream = await client.chat.completions.create({
    model: "tiny", messages, max_tokens: 8, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    if (chunk.usage) out.stream_usage = chunk.usage.prompt_tokens;
    for (const choice of chunk.choices) {
      out.streamed += choice.delta.content || "";
      if (choice.finish_reason) out.finish = choice.finish_reason;
    }
  }
  try {
    await client.chat.completions.create({ model: "nobody", messages });
  } catch (e) { out.unknown = e.status; }
  console.log(JSON.stringify(out));
})().catch((e) => { console.error(e); process.exit(1); });
"""


def run(argv, **kw):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, **kw)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(out, gateway):
    assert out["models"] == ["tiny"]
    assert out["plain"] == out["streamed"] != ""
    assert out["usage"] == out["stream_usage"] > 100
    assert out["finish"] == "length"
    assert out["unknown"] == 404  # the engine's own answer
    exact = [f for f in gateway.flows(limit=50)
             if f["api"] == "chat" and f["legs"] and f["legs"][-1]["tier"] == "kv_exact"]
    assert exact and all(f["outcome"] == "ok" for f in exact)


def test_python(stand, openai_python):
    out = run([openai_python, "-c", PYTHON, f"http://{stand.vip_address}"])
    check(out, stand)
    assert out["ids"] == 3
    assert stand.receipt(out["request_id"])["outcome"] == "ok"


def test_node(stand, openai_node, tmp_path):
    script = openai_node / "client.js"
    script.write_text(NODE)
    check(run(["node", str(script), f"http://{stand.vip_address}"], cwd=openai_node), stand)


def test_curl(stand):
    url = f"http://{stand.vip_address}"
    body = json.dumps({"model": "tiny", "prompt": "word " * 400, "max_tokens": 4})
    plain = run(["curl", "-sf", f"{url}/v1/completions", "-H", "Content-Type: application/json",
                 "-H", "Expect: 100-continue", "-d", body])
    assert plain["choices"][0]["finish_reason"] == "length"
    chunked = run(["curl", "-sf", f"{url}/v1/completions", "-H", "Content-Type: application/json",
                   "-H", "Transfer-Encoding: chunked", "-d", body])
    assert chunked["choices"][0]["text"] == plain["choices"][0]["text"]
    stream = subprocess.run(
        ["curl", "-sfN", f"{url}/v1/completions", "-H", "Content-Type: application/json", "-d",
         json.dumps({"model": "tiny", "prompt": "a b c", "max_tokens": 3, "stream": True})],
        capture_output=True, text=True, timeout=30, check=True)
    assert stream.stdout.endswith("data: [DONE]\n\n")
    head = subprocess.run(["curl", "-sI", f"{url}/v1/models"], capture_output=True, text=True,
                          timeout=30, check=True)
    assert head.stdout.startswith("HTTP/1.1 405")  # as the engine says it
