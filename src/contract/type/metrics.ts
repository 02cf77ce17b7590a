// Prometheus metrics that several types of monitor give, with their help texts; names of blackbox_exporter
// where it has them. All are gauges.

/** Name → help text. */
export type MetricHelp = Readonly<Record<string, string>>

/** Of what looks up a name and connects to an address. */
export const ADDRESS_METRICS = {
  probe_dns_lookup_time_seconds: 'Time that looking up the name took.',
  probe_ip_protocol: 'Version of IP that was spoken, 4 or 6.',
} as const satisfies MetricHelp

/** Of what speaks TLS. */
export const TLS_METRICS = {
  probe_ssl_earliest_cert_expiry: 'When the first certificate of the chain expires, Unix time.',
  probe_ssl_last_chain_expiry_timestamp_seconds: 'When the verified chain expires, Unix time.',
  probe_tls_cipher_info: 'Cipher that was agreed on; always 1.',
  probe_tls_version_info: 'TLS version that was agreed on; always 1.',
} as const satisfies MetricHelp

/** Of URL and API monitors. */
export const HTTP_METRICS = {
  ...ADDRESS_METRICS,
  ...TLS_METRICS,
  probe_http_content_length: 'Content-Length of the last response; -1 when it had none.',
  probe_http_duration_seconds: 'Time of each phase, summed over redirects.',
  probe_http_redirects: 'Redirects that were followed.',
  probe_http_ssl: 'Whether the last response came over TLS.',
  probe_http_status_code: 'Status code of the last response; 0 when there was none.',
  probe_http_uncompressed_body_length: 'Bytes of the last body, unpacked.',
  probe_http_version: 'HTTP version of the last response.',
} as const satisfies MetricHelp

/** Of browser and multistep monitors. */
export const SCRIPT_METRICS = {
  probe_browser_layout_shift: 'Largest layout shift of the documents that a script opened.',
  probe_browser_vital_seconds: 'Web vitals: the worst of the documents that a script opened.',
  probe_script_cpu_seconds: 'Processor time of a script and its browser.',
  probe_script_memory_peak_bytes: 'Most memory that a script and its browser used at a time.',
  probe_script_tests: 'Tests of a script by their status.',
} as const satisfies MetricHelp
