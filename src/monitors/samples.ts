// The names of all samples that monitors give, and what each means; blackbox_exporter's where it has one.

/** Name → meaning, for Prometheus' HELP lines. All are gauges. */
export const SAMPLES: ReadonlyMap<string, string> = new Map([
  ['probe_dns_lookup_time_seconds', 'Time that looking up the name took.'],
  ['probe_failed_due_to_regex', 'Whether the target sent something else than was expected.'],
  ['probe_http_content_length', 'Content-Length of the last response; -1 when it had none.'],
  ['probe_http_duration_seconds', 'Time of each phase, summed over redirects.'],
  ['probe_http_redirects', 'Redirects that were followed.'],
  ['probe_http_ssl', 'Whether the last response came over TLS.'],
  ['probe_http_status_code', 'Status code of the last response; 0 when there was none.'],
  ['probe_http_uncompressed_body_length', 'Bytes of the last body, unpacked.'],
  ['probe_http_version', 'HTTP version of the last response.'],
  ['probe_ip_protocol', 'Version of IP that was spoken, 4 or 6.'],
  ['probe_ssl_earliest_cert_expiry', 'When the first certificate of the chain expires, Unix time.'],
  ['probe_ssl_last_chain_expiry_timestamp_seconds', 'When the verified chain expires, Unix time.'],
  ['probe_tcp_duration_seconds', 'Time of each phase of a TCP check.'],
  ['probe_tls_cipher_info', 'Cipher that was agreed on; always 1.'],
  ['probe_tls_version_info', 'TLS version that was agreed on; always 1.'],
  [
    'probe_traceroute_duration_seconds',
    'Round trips to the target of a trace: statistics of them.',
  ],
  ['probe_traceroute_mtu_bytes', 'Largest packet that every link of the path takes, as told.'],
  ['probe_traceroute_packet_loss_percent', 'Share of all probes of a trace without an answer.'],
  ['probe_traceroute_reached', 'Whether the target of a trace answered.'],
  ['probe_traceroute_route_changed', 'Whether the path differs from that of the run before.'],
  ['probe_traceroute_route_hash', 'Hash of the addresses of all hops; another path, another hash.'],
  ['probe_traceroute_target_loss_percent', 'Share of the probes to the target without an answer.'],
  ['probe_traceroute_total_hops', 'Hops to the target, or to the last that answered.'],
])
