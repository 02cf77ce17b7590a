// Every way in which a run can go wrong, by a stable code. Codes are part of the public contract:
// alerts, dashboards and clients match on them. One that is renamed is reported under both names for one version.

/** Whom a failure speaks about: the target that was watched, or this agent and its settings. */
export type About = 'target' | 'agent'

/**
 * The table of failure codes. `about` decides the verdict (`failed` or `errored`), `meaning` is what
 * documentation and help texts show.
 */
export const FAILURES = {
  DNS_NOT_FOUND: { about: 'target', meaning: 'the name does not exist (NXDOMAIN)' },
  DNS_NO_ADDRESS: {
    about: 'target',
    meaning: 'the name exists but has no address of the asked family',
  },
  DNS_SERVER_FAILED: {
    about: 'target',
    meaning: 'the name server answered with an error, or not at all',
  },
  RESOLVER_UNREACHABLE: {
    about: 'agent',
    meaning: 'none of the name servers of the agent’s system answers anything',
  },
  NETWORK_UNREACHABLE: {
    about: 'agent',
    meaning: 'the agent’s machine has no network: no address but the loopback’s, or no route',
  },
  CONNECT_REFUSED: { about: 'target', meaning: 'the target refused the connection' },
  CONNECT_UNREACHABLE: { about: 'target', meaning: 'no route to the target host or network' },
  CONNECT_FAILED: { about: 'target', meaning: 'the connection failed for another reason' },
  CONNECTION_RESET: { about: 'target', meaning: 'the target reset the connection' },
  CONNECTION_CLOSED: {
    about: 'target',
    meaning: 'the target closed the connection before it had answered',
  },
  TIMEOUT_DNS: { about: 'target', meaning: 'time ran out while the name was looked up' },
  TIMEOUT_CONNECT: { about: 'target', meaning: 'time ran out while connecting' },
  TIMEOUT_PROXY: { about: 'target', meaning: 'time ran out while the proxy made the tunnel' },
  TIMEOUT_STARTTLS: {
    about: 'target',
    meaning: 'time ran out while TLS was asked for by STARTTLS',
  },
  TIMEOUT_TLS: { about: 'target', meaning: 'time ran out in the TLS handshake' },
  TIMEOUT_SEND: { about: 'target', meaning: 'time ran out while the request was sent' },
  TIMEOUT_FIRST_BYTE: {
    about: 'target',
    meaning: 'time ran out waiting for the first byte of the answer',
  },
  TIMEOUT_DOWNLOAD: { about: 'target', meaning: 'time ran out while the answer was read' },
  PROXY_UNREACHABLE: { about: 'agent', meaning: 'the location’s proxy could not be reached' },
  PROXY_REFUSED: { about: 'agent', meaning: 'the location’s proxy refused to make the connection' },
  PROXY_AUTHENTICATION: { about: 'agent', meaning: 'the location’s proxy wants other credentials' },
  TLS_EXPIRED: { about: 'target', meaning: 'a certificate of the chain has expired' },
  TLS_NOT_YET_VALID: { about: 'target', meaning: 'a certificate of the chain is not valid yet' },
  TLS_HOSTNAME_MISMATCH: { about: 'target', meaning: 'the certificate is for another host name' },
  TLS_SELF_SIGNED: { about: 'target', meaning: 'the certificate is signed by itself' },
  TLS_UNTRUSTED: {
    about: 'target',
    meaning: 'the chain does not lead to a trusted certificate authority',
  },
  TLS_REVOKED: { about: 'target', meaning: 'the certificate has been revoked' },
  TLS_CERTIFICATE_INVALID: {
    about: 'target',
    meaning: 'the certificate was refused for another reason',
  },
  TLS_CLIENT_CERTIFICATE: {
    about: 'target',
    meaning: 'the target wants a client certificate, or refused ours',
  },
  TLS_PROTOCOL: {
    about: 'target',
    meaning: 'no TLS version or cipher in common, or a handshake alert',
  },
  TLS_NOT_SPOKEN: { about: 'target', meaning: 'the target does not speak TLS on this port' },
  TLS_BASELINE: {
    about: 'target',
    meaning: 'the target falls short of the monitor’s security baseline',
  },
  TLS_REVOCATION_UNKNOWN: {
    about: 'target',
    meaning: 'nobody could tell whether the certificate is revoked, and the monitor insists on it',
  },
  STARTTLS_REFUSED: {
    about: 'target',
    meaning: 'the target does not offer STARTTLS, or refused it',
  },
  HTTP_STATUS: { about: 'target', meaning: 'the status code is 400 or above' },
  HTTP_MALFORMED: { about: 'target', meaning: 'the answer is not valid HTTP' },
  HTTP_HEADERS_TOO_LARGE: {
    about: 'target',
    meaning: 'the header section is larger than the limit',
  },
  HTTP_BODY_TOO_LARGE: { about: 'target', meaning: 'the body is larger than the limit' },
  HTTP_UNPACKED_TOO_LARGE: {
    about: 'target',
    meaning: 'the body, unpacked, is larger than the limit',
  },
  HTTP_BODY_INCOMPLETE: {
    about: 'target',
    meaning: 'the connection ended before the whole body had come',
  },
  HTTP_BODY_UNDECODABLE: {
    about: 'target',
    meaning: 'the body is not in the encoding that it claims',
  },
  HTTP_REDIRECT_LIMIT: { about: 'target', meaning: 'more redirects than the limit' },
  HTTP_REDIRECT_INVALID: { about: 'target', meaning: 'a redirect without a usable Location' },
  TCP_EXPECT: { about: 'target', meaning: 'the target did not send what was expected' },
  TCP_DATA_TOO_LARGE: { about: 'target', meaning: 'the target sent more than the limit' },
  DNS_RESPONSE_CODE: { about: 'target', meaning: 'the response code is not NOERROR' },
  DNS_MALFORMED: { about: 'target', meaning: 'the answer is not a valid DNS message' },
  DNS_MISMATCH: { about: 'target', meaning: 'the answer is one to another question' },
  DNS_TRUNCATED: { about: 'target', meaning: 'the answer is cut off, over TCP as well' },
  DNS_HTTP: {
    about: 'target',
    meaning: 'the DNS over HTTPS server answered with something else than a DNS message',
  },
  ICMP_PACKET_LOSS: {
    about: 'target',
    meaning: 'the share of lost echoes has reached maxPacketLossThreshold',
  },
  ICMP_UNREACHABLE: {
    about: 'target',
    meaning:
      'a router, or the target, says that the network, host, protocol or port is unreachable',
  },
  ICMP_PROHIBITED: {
    about: 'target',
    meaning: 'a router, or the target, says that it is prohibited to reach the target',
  },
  ICMP_TTL_EXCEEDED: {
    about: 'target',
    meaning: 'a router says that the packet had made as many hops as it was allowed',
  },
  ICMP_TOO_LARGE: {
    about: 'target',
    meaning: 'the packet is larger than the path’s MTU and must not be fragmented',
  },
  ICMP_REJECTED: { about: 'target', meaning: 'a router rejects the packet for another reason' },
  ICMP_NOT_PERMITTED: {
    about: 'agent',
    meaning: 'the agent’s system gives it no ICMP socket; the message says what to allow',
  },
  HTTP2_NOT_SPOKEN: { about: 'target', meaning: 'the target does not speak HTTP/2 on this port' },
  HTTP2_PROTOCOL: { about: 'target', meaning: 'the target broke the rules of HTTP/2' },
  HTTP2_GOAWAY: {
    about: 'target',
    meaning: 'the target shut the connection down before it had answered (GOAWAY)',
  },
  HTTP2_STREAM_RESET: { about: 'target', meaning: 'the target reset the call (RST_STREAM)' },
  GRPC_STATUS: { about: 'target', meaning: 'the call ended with a status other than OK' },
  GRPC_NOT_SERVING: { about: 'target', meaning: 'the state of health is not SERVING' },
  GRPC_SERVICE_NOT_FOUND: {
    about: 'target',
    meaning: 'the health service does not know the service (NOT_FOUND)',
  },
  GRPC_HTTP_STATUS: {
    about: 'target',
    meaning: 'a proxy or web server answered with an HTTP status instead of gRPC',
  },
  GRPC_NOT_SPOKEN: { about: 'target', meaning: 'the answer is of another content type than gRPC' },
  GRPC_MALFORMED: { about: 'target', meaning: 'the answer is not valid gRPC' },
  GRPC_UNDECODABLE: {
    about: 'target',
    meaning:
      'the answer is not in the compression that it claims, or in one that was not asked for',
  },
  GRPC_MESSAGE_TOO_LARGE: {
    about: 'target',
    meaning: 'a message of the answer is larger than the limit',
  },
  GRPC_STREAM_TOO_LARGE: {
    about: 'target',
    meaning: 'the answer has more messages or bytes than the limits',
  },
  GRPC_REFLECTION_UNAVAILABLE: {
    about: 'target',
    meaning: 'the server offers no server reflection',
  },
  GRPC_SCHEMA_INVALID: {
    about: 'target',
    meaning: 'what server reflection says about the types cannot be used',
  },
  GRPC_METHOD_NOT_FOUND: { about: 'target', meaning: 'the server has no such service or method' },
  GRPC_METHOD_UNDEFINED: {
    about: 'agent',
    meaning: 'the proto text has no such service or method',
  },
  GRPC_METHOD_UNSUPPORTED: {
    about: 'agent',
    meaning: 'the method takes a stream of requests, which monitors do not send',
  },
  GRPC_PROTO_INVALID: { about: 'agent', meaning: 'the proto text does not parse, or lacks types' },
  GRPC_MESSAGE_INVALID: {
    about: 'agent',
    meaning: 'the request is not JSON, or does not fit the type of the method',
  },
  DESTINATION_UNREACHED: {
    about: 'target',
    meaning: 'a trace ended without an answer from the target; the message says where, and why',
  },
  TIMEOUT_TRACE: {
    about: 'target',
    meaning: 'time ran out before a trace had reached the target or come to its end',
  },
  TRACE_UNSUPPORTED: {
    about: 'agent',
    meaning: 'the agent’s system cannot trace with this protocol; the message says what it lacks',
  },
  ASSERTION_FAILED: { about: 'target', meaning: 'an assertion does not hold' },
  ASSERTION_REGEX_TIMEOUT: {
    about: 'agent',
    meaning: 'a regular expression took longer than the limit',
  },
  ASSERTION_QUEUE_FULL: {
    about: 'agent',
    meaning: 'too many expensive assertions wait for their turn',
  },
  ASSERTION_INVALID: { about: 'agent', meaning: 'an assertion cannot be evaluated' },
  RESPONSE_TIME_ABOVE_MAX: {
    about: 'target',
    meaning: 'the response time is above maxResponseTime',
  },
  ADDRESS_BLOCKED: {
    about: 'agent',
    meaning: 'the agent’s network policy, or its system’s firewall, forbids this address',
  },
  POLICY_UNDECIDED: {
    about: 'agent',
    meaning: 'time ran out before the network policy was decided on',
  },
  SETTINGS_INVALID: { about: 'agent', meaning: 'the monitor’s settings are not valid' },
  CLIENT_CERTIFICATE_UNKNOWN: {
    about: 'agent',
    meaning: 'the client certificate that the monitor names is not known to this agent',
  },
  VARIABLE_UNKNOWN: { about: 'agent', meaning: 'the monitor uses a variable that is not defined' },
  CHECK_TYPE_UNSUPPORTED: { about: 'agent', meaning: 'this agent cannot run this type of monitor' },
  SCRIPT_UNSUPPORTED: {
    about: 'agent',
    meaning: 'this agent runs no code of monitors',
  },
  SCRIPT_FAILED: {
    about: 'target',
    meaning: 'a test of the script failed, or the script ended with an error',
  },
  SCRIPT_INVALID: {
    about: 'agent',
    meaning: 'the script cannot be begun: it does not parse, lacks an import, or defines no test',
  },
  RUNTIME_MISSING: {
    about: 'agent',
    meaning: 'the runtime of the script is not installed; the message says how to install it',
  },
  BROWSER_MISSING: {
    about: 'agent',
    meaning: 'the agent’s system has no Chromium; the message says how to install it',
  },
  TESTS_FAILED: { about: 'target', meaning: 'tests of a check suite failed' },
  SUITE_FAILED: {
    about: 'target',
    meaning: 'a check suite failed outside of its tests, as in its set-up',
  },
  SUITE_INVALID: {
    about: 'agent',
    meaning: 'a check suite cannot be loaded: its configuration, its tests or its command',
  },
  NO_TESTS: { about: 'agent', meaning: 'a check suite has no test to run, or skips them all' },
  BUNDLE_INVALID: { about: 'agent', meaning: 'the project of a check suite cannot be read' },
  ENGINE_MISSING: { about: 'agent', meaning: 'the engine of a check suite is not installed' },
  PACKAGE_TOOL_MISSING: {
    about: 'agent',
    meaning: 'the package manager that a check suite needs is not installed',
  },
  INSTALL_FAILED: {
    about: 'agent',
    meaning: 'the packages of a check suite could not be installed',
  },
  TIMEOUT_RUN: { about: 'target', meaning: 'time ran out while user code ran' },
  RUN_OUT_OF_CPU: {
    about: 'agent',
    meaning: 'user code used more processor time than it may',
  },
  RUN_OUT_OF_MEMORY: { about: 'agent', meaning: 'user code used more memory than it may' },
  RUN_OUT_OF_DISK: { about: 'agent', meaning: 'user code wrote more files than it may' },
  RUN_OUT_OF_OUTPUT: { about: 'agent', meaning: 'user code wrote more output than it may' },
  RUN_OUT_OF_PROCESSES: {
    about: 'agent',
    meaning: 'user code had more processes at a time than it may',
  },
  RUN_CRASHED: { about: 'agent', meaning: 'user code was ended by a signal' },
  SANDBOX_FAILED: {
    about: 'agent',
    meaning: 'the agent’s system cannot hold user code as it must',
  },
  DATA_DIR_UNWRITABLE: {
    about: 'agent',
    meaning: 'the agent cannot write below DATA_DIR, where the run has its folder',
  },
  RESOURCES_EXHAUSTED: {
    about: 'agent',
    meaning: 'the agent is out of descriptors, ports, buffers, memory or processor time',
  },
  AGENT_OVERLOADED: {
    about: 'agent',
    meaning: 'the agent’s own delay, in the repeated attempt as well, would decide the verdict',
  },
  DEADLINE_IGNORED: { about: 'agent', meaning: 'the run did not end when its deadline came' },
  CANCELLED: { about: 'agent', meaning: 'the run was cancelled' },
  INTERNAL: { about: 'agent', meaning: 'a fault in the agent itself' },
} as const satisfies Record<string, { about: About; meaning: string }>

export type FailureCode = keyof typeof FAILURES

/** What is wrong with an agent's own network: it errors whatever monitors run there. */
export const NETWORK_PROBLEMS = ['RESOLVER_UNREACHABLE', 'NETWORK_UNREACHABLE'] as const
export type NetworkProblem = (typeof NETWORK_PROBLEMS)[number]

/** The earlier names of codes that were renamed since the last version. */
const FORMER_CODES: Partial<Record<FailureCode, string>> = { SANDBOX_FAILED: 'CAGE_FAILED' }

/** One thing that went wrong, as data. `message` is for people; match on `code`. */
export interface Failure {
  code: FailureCode
  message: string
  /** Where it happened: an address, a URL, an assertion's index, a redirect hop… */
  details?: Record<string, unknown>
}

/** Makes a failure. `message` says what was seen and, where it helps, what was expected. */
export function failure(
  code: FailureCode,
  message: string,
  details?: Record<string, unknown>,
): Failure {
  const formerCode = FORMER_CODES[code]
  const all = formerCode === undefined ? details : { ...details, formerCode }
  return all === undefined ? { code, message } : { code, message, details: all }
}

/** Whether the failure speaks about the target or about this agent. */
export function aboutWhom(failed: Failure): About {
  return FAILURES[failed.code].about
}
