"""The integration page's rule as it stands, addresses replaced, and its list of things to verify."""

import json

import pytest

from gateway import API, Gateway, split_address
from harness import MINI_TOKENIZER, RawClient, exchange, request_bytes, start_trt, wait_until

from world import PROMPT, assert_lone_reader

# Addresses of the page and what stands for them here; ports are filled in.
PAGE_RULE = """
{"serviceArguments":{"externalIP":"192.0.2.10","port":2040,"protocol":"tcp","sel":0,"mode":4,"security":0,
  "kvEngineType":"trtllm","kvExactMode":3,"kvBlockSize":32,"kvWarmupSec":5,"sse_mode":true,"host":"192.0.2.10","monitor":true,"cb_enable":true,
  "probetype":"http","probeport":8355,"probereq":"/health","probeTimeout":5,"probeRetries":2},
 "endpoints":[{"endpointIP":"198.51.100.11","targetPort":8355,"weight":1},
  {"endpointIP":"198.51.100.12","targetPort":8355,"weight":1},{"endpointIP":"198.51.100.21","targetPort":8355,"weight":1}]}
"""
PAGE_ADDRESSES = {"192.0.2.10": "127.0.0.1", "198.51.100.11": "127.0.1.11",
                  "198.51.100.12": "127.0.1.12", "198.51.100.21": "127.0.1.21"}
DELETE_PATH = (f"{API}/config/loadbalancer/hosturl/192.0.2.10/externalipaddress/192.0.2.10/port/2040/"
               "protocol/tcp")


class Page:
    """The gateway with the page's rule, and its three engines."""

    def __init__(self, folder, tokenizers):
        self.gateway = Gateway(str(folder), tokenizers=tokenizers)
        self.vip = self.gateway.vip()
        self.engines = []
        port = 0
        for host in list(PAGE_ADDRESSES.values())[1:]:
            self.engines.append(start_trt("--host", host, "--port", port, "--model", MINI_TOKENIZER,
                                          "--served-model-name", "tiny"))
            port = split_address(self.engines[0].address)[1]
        self.body = json.loads(self.here(PAGE_RULE))
        self.created = self.gateway.create(self.body)

    def here(self, text):
        for there, ours in PAGE_ADDRESSES.items():
            text = text.replace(there, ours)
        return (text.replace("2040", self.vip.rsplit(":", 1)[1])
                .replace("8355", self.engines[0].address.rsplit(":", 1)[1]))

    def rule(self):
        return self.gateway.find(self.body)

    def chat(self, **more):
        """As the page's client asks: the Host with the port, no key."""
        body = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}],
                "max_tokens": 8, **more}
        with RawClient(self.vip, 30) as client:
            client.send(request_bytes("POST", "/v1/chat/completions", body, host=self.vip))
            return client.read_reply()

    def blocks(self):
        return [e["kv"]["blocks"] for e in self.rule()["endpoints"]]

    def close(self):
        self.gateway.stop()
        for engine in self.engines:
            engine.__exit__(None, None, None)


@pytest.fixture(scope="module")
def page(tmp_path_factory, tokenizers):
    made = Page(tmp_path_factory.mktemp("page"), tokenizers)
    yield made
    made.close()


def test_the_rule_and_its_roles_read_back(page):
    sent, got = page.body["serviceArguments"], page.rule()["serviceArguments"]
    assert {k: got.get(k) for k in sent} == sent
    for row, sent_row in zip(page.rule()["endpoints"], page.body["endpoints"]):
        assert {k: row[k] for k in sent_row} == sent_row
        assert not row.get("ep_role")


def test_the_block_size_is_that_of_server_info(page):
    declared = page.rule()["serviceArguments"]["kvBlockSize"]
    for engine in page.engines:
        assert engine.get("/server_info").json()["tokens_per_block"] == declared
    wait_until(lambda: all(e["kv"]["signal"] in ("ok", "quiet", "warming")
                           for e in page.rule()["endpoints"]), 15, "all admitted")


def test_a_plain_request_goes_through_the_vip(page):
    reply = page.chat()
    assert reply.status == 200
    assert reply.json()["choices"][0]["message"]["content"]


def test_a_streamed_request_goes_through_the_vip(page):
    reply = page.chat(stream=True)
    assert reply.status == 200 and reply.is_complete and reply.events()[-1] == "[DONE]"
    text = "".join(json.loads(e)["choices"][0]["delta"].get("content", "")
                   for e in reply.events()[:-1])
    assert text


def test_metrics_are_on(page):
    reply = page.gateway.get("/metrics")
    assert reply.status == 200 and b"loxilb_lb_rules" in reply.body


def test_subscribers_are_connected(page):
    def connected():
        return page.gateway.metric("loxilb_kv_subscriber_connected") == 3
    wait_until(connected, 15, "loxilb_kv_subscriber_connected 1 for each endpoint")


def test_blocks_are_in_the_inventory(page):
    assert page.chat().status == 200
    wait_until(lambda: page.gateway.metric("loxilb_pd_kv_blocks") > 0, 10, "loxilb_pd_kv_blocks")
    assert sum(page.blocks()) > 0


def test_hits_are_counted(page):
    """After the warm-up the page asks for, a prompt goes where its blocks are."""
    def hit():
        assert page.chat().status == 200
        return page.gateway.metric("loxilb_pd_kv_tier15_hits_total") > 0
    wait_until(hit, 30, "loxilb_pd_kv_tier15_hits_total")
    assert b"loxilb_pd_kv_tier15_hits_total" in page.gateway.get("/metrics").body


def test_early_exits_are_counted(page):
    reply = page.gateway.get("/metrics")
    assert b"loxilb_pd_trt_ctx_early_exit_total" in reply.body
    assert page.gateway.metric("loxilb_pd_trt_ctx_early_exit_total") == 0


def test_nobody_else_drains(page):
    for engine in page.engines:
        wait_until(lambda engine=engine: engine.drains()["count"] > 3, 10, "drains")
        assert_lone_reader(engine)
    assert page.gateway.metric("loxilb_ai_kv_trtllm_drain_ownership_fault_total") == 0


def test_zz_the_pages_delete_removes_the_rule_and_the_drains_end(page):
    path = page.here(DELETE_PATH)
    assert exchange(page.gateway.api, "DELETE", path).status == 200
    assert page.gateway.rules() == []
    for engine in page.engines:
        assert_lone_reader(engine)
    assert exchange(page.gateway.api, "DELETE", path).status == 404
