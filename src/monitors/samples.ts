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
  ['probe_ssl_cert_days_left', 'Whole days until the certificate of the target expires.'],
  ['probe_ssl_chain_trusted', 'Whether the chain of certificates verifies.'],
  ['probe_ssl_duration_seconds', 'Time of each phase of an SSL check.'],
  ['probe_ssl_earliest_cert_expiry', 'When the first certificate of the chain expires, Unix time.'],
  ['probe_ssl_hostname_verified', 'Whether the certificate is for the name that was asked for.'],
  ['probe_ssl_last_chain_expiry_timestamp_seconds', 'When the verified chain expires, Unix time.'],
  [
    'probe_ssl_last_chain_info',
    'The certificate of the target, where its chain verifies; always 1.',
  ],
  ['probe_ssl_ocsp_stapled', 'Whether an OCSP response came with the handshake.'],
  ['probe_ssl_ocsp_status', 'What OCSP says of the certificate: 0 good, 1 revoked, 2 unknown.'],
  ['probe_tcp_duration_seconds', 'Time of each phase of a TCP check.'],
  ['probe_tls_cipher_info', 'Cipher that was agreed on; always 1.'],
  ['probe_tls_version_info', 'TLS version that was agreed on; always 1.'],
])
