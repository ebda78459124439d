docker.io
server = "https://registry-1.docker.io"

[host."https://mirror.corp"]
  capabilities = ["pull", "resolve"]
  ca = "../mirror.corp/ca.crt"
  dial_timeout = "1s"

[host."https://second.corp"]
  capabilities = ["pull"]

[host."https://push.corp"]
  capabilities = ["push"]
