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

const target = (meaning: string, timed?: FailureKind['timed']): FailureKind => ({
  about: 'target',
  meaning,
  ...(timed && { timed }),
})
const agent = (meaning: string): FailureKind => ({ about: 'agent', meaning })

/** Failure codes shared by monitor types. Codes of one type are in its definition. */
export const FAILURES = {
  DNS_NOT_FOUND: target('the name does not exist (NXDOMAIN)'),
  DNS_NO_ADDRESS: target('the name exists but has no address of the asked family'),
  DNS_SERVER_FAILED: target(
    'the name server answered with an error, or not at all',
    ({ reason }) => reason === 'ETIMEOUT',
  ),
  RESOLVER_UNREACHABLE: agent('none of the name servers of the agent’s system answers anything'),
  NETWORK_UNREACHABLE: agent(
    'the agent’s machine has no network: no address but the loopback’s, or no route',
  ),
  CONNECT_REFUSED: target('the target refused the connection'),
  CONNECT_UNREACHABLE: target('no route to the target host or network'),
  CONNECT_FAILED: target('the connection failed for another reason'),
  CONNECTION_RESET: target('the target reset the connection'),
  CONNECTION_CLOSED: target('the target closed the connection before it had answered'),
  TIMEOUT_DNS: target('time ran out while the name was looked up', true),
  TIMEOUT_CONNECT: target('time ran out while connecting', true),
  TIMEOUT_PROXY: target('time ran out while the proxy made the tunnel', true),
  TIMEOUT_STARTTLS: target('time ran out while TLS was asked for by STARTTLS', true),
  TIMEOUT_TLS: target('time ran out in the TLS handshake', true),
  TIMEOUT_SEND: target('time ran out while the request was sent', true),
  TIMEOUT_FIRST_BYTE: target('time ran out waiting for the first byte of the answer', true),
  TIMEOUT_DOWNLOAD: target('time ran out while the answer was read', true),
  PROXY_UNREACHABLE: agent('the location’s proxy could not be reached'),
  PROXY_REFUSED: agent('the location’s proxy refused to make the connection'),
  PROXY_AUTHENTICATION: agent('the location’s proxy wants other credentials'),
  TLS_EXPIRED: target('a certificate of the chain has expired'),
  TLS_NOT_YET_VALID: target('a certificate of the chain is not valid yet'),
  TLS_HOSTNAME_MISMATCH: target('the certificate is for another host name'),
  TLS_SELF_SIGNED: target('the certificate is signed by itself'),
  TLS_UNTRUSTED: target('the chain does not lead to a trusted certificate authority'),
  TLS_REVOKED: target('the certificate has been revoked'),
  TLS_CERTIFICATE_INVALID: target('the certificate was refused for another reason'),
  TLS_CLIENT_CERTIFICATE: target('the target wants a client certificate, or refused ours'),
  TLS_PROTOCOL: target('no TLS version or cipher in common, or a handshake alert'),
  TLS_NOT_SPOKEN: target('the target does not speak TLS on this port'),
  HTTP_STATUS: target('the status code is 400 or above'),
  HTTP_MALFORMED: target('the answer is not valid HTTP'),
  HTTP_HEADERS_TOO_LARGE: target('the header section is larger than the limit'),
  HTTP_BODY_TOO_LARGE: target('the body is larger than the limit'),
  HTTP_UNPACKED_TOO_LARGE: target('the body, unpacked, is larger than the limit'),
  HTTP_BODY_INCOMPLETE: target('the connection ended before the whole body had come'),
  HTTP_BODY_UNDECODABLE: target('the body is not in the encoding that it claims'),
  HTTP_REDIRECT_LIMIT: target('more redirects than the limit'),
  HTTP_REDIRECT_INVALID: target('a redirect without a usable Location'),
  TCP_DATA_TOO_LARGE: target('the target sent more than the limit'),
  DNS_MALFORMED: target('the answer is not a valid DNS message'),
  ICMP_NOT_PERMITTED: agent(
    'the agent’s system gives it no ICMP socket; the message says what to allow',
  ),
  ASSERTION_FAILED: target('an assertion does not hold'),
  ASSERTION_REGEX_TIMEOUT: agent('a regular expression took longer than the limit'),
  ASSERTION_QUEUE_FULL: agent('too many expensive assertions wait for their turn'),
  ASSERTION_INVALID: agent('an assertion cannot be evaluated'),
  RESPONSE_TIME_ABOVE_MAX: target('the response time is above maxResponseTime'),
  ADDRESS_BLOCKED: agent(
    'the agent’s network policy, or its system’s firewall, forbids this address',
  ),
  POLICY_UNDECIDED: agent('time ran out before the network policy was decided on'),
  SETTINGS_INVALID: agent('the monitor’s settings are not valid'),
  VARIABLE_UNKNOWN: agent('the monitor uses a variable that is not defined'),
  CHECK_TYPE_UNSUPPORTED: agent('this agent cannot run this type of monitor'),
  SCRIPT_UNSUPPORTED: agent('this agent runs no code of monitors'),
  SCRIPT_FAILED: target('a test of the script failed, or the script ended with an error'),
  SCRIPT_INVALID: agent(
    'the script cannot be begun: it does not parse, lacks an import, or defines no test',
  ),
  RUNTIME_MISSING: agent(
    'the runtime of the script is not installed; the message says how to install it',
  ),
  BROWSER_MISSING: agent('the agent’s system has no Chromium; the message says how to install it'),
  TESTS_FAILED: target('tests of a check suite failed'),
  SUITE_FAILED: target('a check suite failed outside of its tests, as in its set-up'),
  SUITE_INVALID: agent(
    'a check suite cannot be loaded: its configuration, its tests or its command',
  ),
  NO_TESTS: agent('a check suite has no test to run, or skips them all'),
  BUNDLE_INVALID: agent('the project of a check suite cannot be read'),
  ENGINE_MISSING: agent('the engine of a check suite is not installed'),
  PACKAGE_TOOL_MISSING: agent('the package manager that a check suite needs is not installed'),
  INSTALL_FAILED: agent('the packages of a check suite could not be installed'),
  TIMEOUT_RUN: target('time ran out while user code ran'),
  RUN_OUT_OF_CPU: agent('user code used more processor time than it may'),
  RUN_OUT_OF_MEMORY: agent('user code used more memory than it may'),
  RUN_OUT_OF_DISK: agent('user code wrote more files than it may'),
  RUN_OUT_OF_OUTPUT: agent('user code wrote more output than it may'),
  RUN_OUT_OF_PROCESSES: agent('user code had more processes at a time than it may'),
  RUN_CRASHED: agent('user code was ended by a signal'),
  SANDBOX_FAILED: agent('the agent’s system cannot hold user code as it must'),
  DATA_DIR_UNWRITABLE: agent('the agent cannot write below DATA_DIR, where the run has its folder'),
  RESOURCES_EXHAUSTED: agent(
    'the agent is out of descriptors, ports, buffers, memory or processor time',
  ),
  AGENT_OVERLOADED: agent(
    'the agent’s own delay, in the repeated attempt as well, would decide the verdict',
  ),
  DEADLINE_IGNORED: agent('the run did not end when its deadline came'),
  CANCELLED: agent('the run was cancelled'),
  INTERNAL: agent('a fault in the agent itself'),
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
