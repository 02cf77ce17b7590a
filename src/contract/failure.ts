// Failures of runs, by stable codes. Codes are part of the public contract:
// alerts, dashboards and clients match on them. One that is renamed is reported under both names for one version.

/** Subject of a failure: the watched target, or the agent and its settings. */
export type About = 'target' | 'agent'

/** Meaning of a failure code. */
export interface FailureKind {
  /** Decides the verdict: `failed` or `errored`. */
  about: About
  /** Shown in documentation and help texts. */
  meaning: string
  /**
   * Whether the failure is a timeout, which a delay of the agent itself may cause; if that depends, by the
   * failure's details.
   */
  timed?: true | ((details: Record<string, unknown>) => boolean)
}

export type FailureTable = Readonly<Record<string, FailureKind>>

/** A failure of the watched target. */
export const aboutTarget = (meaning: string, timed?: FailureKind['timed']): FailureKind => ({
  about: 'target',
  meaning,
  ...(timed && { timed }),
})
/** A failure of the agent or its settings. */
export const aboutAgent = (meaning: string): FailureKind => ({ about: 'agent', meaning })

/** Failure codes shared by monitor types. Codes of one type are in its definition. */
export const FAILURES = {
  DNS_NOT_FOUND: aboutTarget('the name does not exist (NXDOMAIN)'),
  DNS_NO_ADDRESS: aboutTarget('the name exists but has no address of that family'),
  DNS_SERVER_FAILED: aboutTarget(
    'the name server answered with an error, or not at all',
    ({ reason }) => reason === 'ETIMEOUT',
  ),
  RESOLVER_UNREACHABLE: aboutAgent('none of the name servers of the agent’s system answers'),
  NETWORK_UNREACHABLE: aboutAgent(
    'the agent’s machine has no network: only a loopback address, or no route',
  ),
  CONNECT_REFUSED: aboutTarget('the target refused the connection'),
  CONNECT_UNREACHABLE: aboutTarget('no route to the target host or network'),
  CONNECT_FAILED: aboutTarget('the connection failed for another reason'),
  CONNECTION_RESET: aboutTarget('the target reset the connection'),
  CONNECTION_CLOSED: aboutTarget('the target closed the connection before it answered'),
  TIMEOUT_DNS: aboutTarget('time ran out while the name was looked up', true),
  TIMEOUT_CONNECT: aboutTarget('time ran out while connecting', true),
  TIMEOUT_PROXY: aboutTarget('time ran out while the proxy set up the tunnel', true),
  TIMEOUT_STARTTLS: aboutTarget('time ran out during STARTTLS', true),
  TIMEOUT_TLS: aboutTarget('time ran out in the TLS handshake', true),
  TIMEOUT_SEND: aboutTarget('time ran out while the request was sent', true),
  TIMEOUT_FIRST_BYTE: aboutTarget('time ran out waiting for the first byte of the answer', true),
  TIMEOUT_DOWNLOAD: aboutTarget('time ran out while the answer was read', true),
  PROXY_UNREACHABLE: aboutAgent('the location’s proxy could not be reached'),
  PROXY_REFUSED: aboutAgent('the location’s proxy refused to make the connection'),
  PROXY_AUTHENTICATION: aboutAgent('the location’s proxy rejected the credentials (407)'),
  TLS_EXPIRED: aboutTarget('a certificate of the chain has expired'),
  TLS_NOT_YET_VALID: aboutTarget('a certificate of the chain is not valid yet'),
  TLS_HOSTNAME_MISMATCH: aboutTarget('the certificate is for another host name'),
  TLS_SELF_SIGNED: aboutTarget('the certificate is self-signed'),
  TLS_UNTRUSTED: aboutTarget('the chain does not lead to a trusted certificate authority'),
  TLS_REVOKED: aboutTarget('the certificate has been revoked'),
  TLS_CERTIFICATE_INVALID: aboutTarget('the certificate was refused for another reason'),
  TLS_CLIENT_CERTIFICATE: aboutTarget('the target requires a client certificate, or rejected it'),
  TLS_PROTOCOL: aboutTarget('no TLS version or cipher in common, or a handshake alert'),
  TLS_NOT_SPOKEN: aboutTarget('the target does not speak TLS on this port'),
  HTTP_STATUS: aboutTarget('the status code is 400 or above'),
  HTTP_MALFORMED: aboutTarget('the answer is not valid HTTP'),
  HTTP_HEADERS_TOO_LARGE: aboutTarget('the header section is larger than the limit'),
  HTTP_BODY_TOO_LARGE: aboutTarget('the body is larger than the limit'),
  HTTP_UNPACKED_TOO_LARGE: aboutTarget('the decompressed body is larger than the limit'),
  HTTP_BODY_INCOMPLETE: aboutTarget('the connection ended before the body was complete'),
  HTTP_BODY_UNDECODABLE: aboutTarget('the body does not match its Content-Encoding'),
  HTTP_REDIRECT_LIMIT: aboutTarget('more redirects than the limit'),
  HTTP_REDIRECT_INVALID: aboutTarget('a redirect without a usable Location'),
  HTTP2_NOT_SPOKEN: aboutTarget('the target does not speak HTTP/2 on this port'),
  HTTP2_PROTOCOL: aboutTarget('the target violated the HTTP/2 protocol'),
  HTTP2_GOAWAY: aboutTarget('the target shut the connection down before it answered (GOAWAY)'),
  HTTP2_STREAM_RESET: aboutTarget('the stream of the request was reset (RST_STREAM)'),
  TCP_DATA_TOO_LARGE: aboutTarget('the target sent more than the limit'),
  DNS_MALFORMED: aboutTarget('the answer is not a valid DNS message'),
  ICMP_NOT_PERMITTED: aboutAgent(
    'the system does not permit ICMP sockets; the message says what to allow',
  ),
  ASSERTION_FAILED: aboutTarget('an assertion failed'),
  ASSERTION_REGEX_TIMEOUT: aboutAgent('a regular expression took longer than the limit'),
  ASSERTION_QUEUE_FULL: aboutAgent('too many expensive assertions are queued'),
  ASSERTION_INVALID: aboutAgent('an assertion cannot be evaluated'),
  RESPONSE_TIME_ABOVE_MAX: aboutTarget('the response time is above maxResponseTime'),
  ADDRESS_BLOCKED: aboutAgent(
    'the agent’s network policy, or its system’s firewall, forbids this address',
  ),
  POLICY_UNDECIDED: aboutAgent('time ran out before the network policy was checked'),
  SETTINGS_INVALID: aboutAgent('the monitor’s settings are not valid'),
  VARIABLE_UNKNOWN: aboutAgent('the monitor uses a variable that is not defined'),
  CHECK_TYPE_UNSUPPORTED: aboutAgent('this agent cannot run this type of monitor'),
  SCRIPT_UNSUPPORTED: aboutAgent('this agent does not run scripts'),
  SCRIPT_FAILED: aboutTarget('a test of the script failed, or the script ended with an error'),
  SCRIPT_INVALID: aboutAgent(
    'the script cannot start: it does not compile, misses an import, or defines no test',
  ),
  RUNTIME_MISSING: aboutAgent(
    'the runtime of the script is not installed; the message says how to install it',
  ),
  BROWSER_MISSING: aboutAgent(
    'the agent’s system has no Chromium; the message says how to install it',
  ),
  TESTS_FAILED: aboutTarget('tests of a check suite failed'),
  SUITE_FAILED: aboutTarget('a check suite failed outside of its tests, as in its set-up'),
  SUITE_INVALID: aboutAgent(
    'a check suite cannot be loaded: its configuration, its tests or its command',
  ),
  NO_TESTS: aboutAgent('a check suite has no test to run, or skips them all'),
  BUNDLE_INVALID: aboutAgent('the project of a check suite cannot be read'),
  ENGINE_MISSING: aboutAgent('the engine of a check suite is not installed'),
  PACKAGE_TOOL_MISSING: aboutAgent('the package manager that a check suite needs is not installed'),
  INSTALL_FAILED: aboutAgent('the packages of a check suite could not be installed'),
  TIMEOUT_RUN: aboutTarget('time ran out while user code ran'),
  RUN_OUT_OF_CPU: aboutAgent('user code exceeded its limit of processor time'),
  RUN_OUT_OF_MEMORY: aboutAgent('user code exceeded its memory limit'),
  RUN_OUT_OF_DISK: aboutAgent('user code exceeded its disk limit'),
  RUN_OUT_OF_OUTPUT: aboutAgent('user code exceeded its output limit'),
  RUN_OUT_OF_PROCESSES: aboutAgent('user code exceeded its limit of processes'),
  RUN_CRASHED: aboutAgent('user code was ended by a signal'),
  SANDBOX_FAILED: aboutAgent('the agent’s system cannot enforce the sandbox'),
  DATA_DIR_UNWRITABLE: aboutAgent(
    'the agent cannot write below DATA_DIR, where the run has its folder',
  ),
  RESOURCES_EXHAUSTED: aboutAgent(
    'the agent is out of descriptors, ports, buffers, memory or processor time',
  ),
  AGENT_OVERLOADED: aboutAgent(
    'the agent was too late, in the repeated attempt as well, for a valid verdict',
  ),
  DEADLINE_IGNORED: aboutAgent('the run did not end at its deadline'),
  CANCELLED: aboutAgent('the run was cancelled'),
  INTERNAL: aboutAgent('a fault in the agent itself'),
} satisfies FailureTable

export type FailureCode = keyof typeof FAILURES

/** Problems of an agent's own network, which make all its monitors error. */
export const NETWORK_PROBLEMS = ['RESOLVER_UNREACHABLE', 'NETWORK_UNREACHABLE'] as const
export type NetworkProblem = (typeof NETWORK_PROBLEMS)[number]

/** The earlier names of codes that were renamed since the last version. */
const FORMER_CODES: Readonly<Record<string, string>> = { SANDBOX_FAILED: 'CAGE_FAILED' }

/** A failure as data. `message` is for display; match on `code`. */
export interface Failure {
  /** A FailureCode, or a code of the type of monitor. */
  code: string
  message: string
  /** Where it happened: an address, a URL, an assertion's index, a redirect hop… */
  details?: Record<string, unknown>
}

/** Whether the failure is about the target or about this agent; a code that is in no table is about the target. */
export function aboutIn(table: FailureTable, { code }: Failure): About {
  return table[code]?.about ?? 'target'
}

/**
 * Makes a failure. `message` names the observed and, if useful, the expected value. A type with
 * codes of its own names them: `failure<TcpCode>('TCP_EXPECT', …)`.
 */
export function failure<Own extends string = never>(
  code: FailureCode | NoInfer<Own>,
  message: string,
  details?: Record<string, unknown>,
): Failure {
  const formerCode = FORMER_CODES[code]
  const all = formerCode === undefined ? details : { ...details, formerCode }
  return all === undefined ? { code, message } : { code, message, details: all }
}

/** A text of others for a message. Where it is cut stands an ellipsis: scrubbing looks there for parts of secrets. */
export function excerpt(text: string, charsMax: number): string {
  return text.length > charsMax ? `${text.slice(0, charsMax)}…` : text
}
