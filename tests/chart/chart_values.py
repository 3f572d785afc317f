"""Values that users are likely to give: one permutation of the chart each."""

PERMUTATIONS = {
    "minimal": {},
    "local": {"mode": "local", "checkpoint": {"pvc": {"accessModes": ["ReadWriteOnce"]}}},
    "streams": {
        "streams": {
            "retail": {
                "topics": ["retail"],
                "schemas": ["/opt/cep/schemas/retail.avsc"],
                "time": "time",
                "allowed_lateness": "2 s",
                "partitions": 6,
            }
        },
        "queries": {"inline": {"shoplifting.yaml": "name: shoplifting\n"}},
    },
    "scram": {
        "kafka": {
            "bootstrapServers": "a:9093,b:9093",
            "clientOptions": {"client.dns.lookup": "use_all_dns_ips"},
            "security": {
                "protocol": "SASL_SSL",
                "mechanism": "SCRAM-SHA-512",
                "username": "cep",
                "existingSecret": "kafka-user",
                "keys": {"password": "password", "ca": "ca.crt"},
            },
        },
        "schemaRegistry": {"auth": {"username": "cep", "existingSecret": "registry-user", "passwordKey": "secret-word"}},
    },
    "mutual-tls": {
        "kafka": {
            "security": {
                "protocol": "SSL",
                "existingSecret": "kafka-user",
                "keys": {"ca": "ca.crt", "certificate": "user.crt", "privateKey": "user.key"},
            }
        }
    },
    "s3": {
        "checkpoint": {
            "type": "uri",
            "uri": "s3a://states/cep",
            "s3": {"endpoint": "http://minio:9000", "region": "eu-1", "existingSecret": "bucket-user"},
        }
    },
    "s3-by-role": {"checkpoint": {"type": "uri", "uri": "s3a://states/cep"}},
    "many": {
        "executor": {"instances": 8, "cores": 1, "requestCores": "500m"},
        "spark": {"buckets": 8},
        "imagePullSecrets": [{"name": "pull"}],
    },
}
