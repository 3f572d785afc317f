import signal
import subprocess
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from app.local.broker import embedded_broker
from app.local.ports import accepts


def test_broker_keeps_records_and_stamps_them_with_its_own_time(bootstrap_servers, make_topic):
    topic = make_topic("stamped")
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    producer.produce(topic, value=b"x", timestamp=1)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"x"
    assert abs(message.timestamp()[1] / 1000 - time.time()) < 60


def test_registry_hands_out_ids_and_refuses_incompatible_schemas(registry_url):
    client = SchemaRegistryClient({"url": registry_url})
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
    number = client.register_schema("embedded-test-value", Schema(text, "AVRO"))
    assert client.get_schema(number).schema_str == text
    client.set_compatibility("embedded-test-value", "BACKWARD")
    other = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
    assert not client.test_compatibility("embedded-test-value", Schema(other, "AVRO"))


def test_children_die_with_a_parent_that_is_killed(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from app.local.child import Child; from app.local.ports import free_ports\n"
        "port, = free_ports(1)\n"
        "child = Child('listener', [sys.executable, '-m', 'http.server', '--bind', '127.0.0.1', str(port)], Path(sys.argv[1]))\n"
        "from app.local.ports import accepts\n"
        "child.wait_until(lambda: accepts(port), 30)\n"
        "print(port, flush=True); time.sleep(60)\n"
    )
    log = tmp_path / "child.log"
    parent = subprocess.Popen([sys.executable, "-c", script, str(log)], stdout=subprocess.PIPE, text=True)
    port = int(parent.stdout.readline())
    assert accepts(port)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while accepts(port) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not accepts(port)


def test_a_broker_that_comes_back_in_its_folder_has_its_records_and_its_address(tmp_path):
    with embedded_broker(tmp_path) as broker:
        address = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(timeout=30)
        producer = Producer({"bootstrap.servers": address, "log_level": 0})
        producer.produce("kept", value=b"x")
        assert producer.flush(30) == 0
        broker.child.kill()
    with embedded_broker(tmp_path) as broker:
        assert broker.bootstrap_servers == address
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0})
        consumer.assign([TopicPartition("kept", 0, 0)])
        message = consumer.poll(30)
        consumer.close()
        assert message is not None
        assert message.value() == b"x"
