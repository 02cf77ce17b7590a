// Errors of calls to the platform; each message says where the call failed and what to do.
import { excerpt } from '../../contract/failure.ts'
import { TargetFailure } from '../../network/target-failure.ts'

/** Every way in which a call to the platform ends without a usable answer, with its meaning. */
export const LINK_ERRORS = {
  UNREACHABLE: 'no connection, or it broke before there was an answer',
  TIMEOUT: 'no connection, or no complete answer, in time',
  TLS: 'the platform’s certificate, or that of an https:// proxy, is not trusted, or TLS failed',
  PROXY: 'the proxy refused, or cannot be reached',
  REDIRECTED: 'the answer was a redirect; they are not followed, since the key would go elsewhere',
  TRUNCATED: 'the answer is incomplete',
  TOO_LARGE: 'the answer is larger than allowed',
  NOT_UNDERSTOOD: 'the answer is not HTTP, or does not match its Content-Encoding',
  ABORTED: 'the agent aborted the call',
} as const

export type LinkErrorCode = keyof typeof LINK_ERRORS

/** A call to the platform without a usable answer; the message is for people and shows no secret. */
export class LinkError extends Error {
  readonly code: LinkErrorCode

  constructor(code: LinkErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'LinkError'
    this.code = code
  }
}

/** Where a call goes, as messages show it: without credentials. */
export interface Route {
  /** `https://monitoring.example.com`. */
  platform: string
  /** `http://proxy.example.com:3128`. */
  proxy: string | undefined
}

/** ` (through the proxy …)`, or nothing. */
export function routeText({ platform, proxy }: Route): string {
  return proxy === undefined ? platform : `${platform} (through the proxy ${proxy})`
}

/** undici's code of a connection that did not stand in time. */
const LATE = 'UND_ERR_CONNECT_TIMEOUT'

/** Errors of sockets before there is an answer; the sentence continues "the platform <url> …". */
const SOCKET_SENTENCES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused the connection; check that it runs, and the port',
  ENOTFOUND: 'has a name that cannot be resolved; check the address and this machine’s DNS',
  EAI_AGAIN: 'has a name that cannot be resolved now; check this machine’s DNS',
  EHOSTUNREACH: 'cannot be reached: no route to the host',
  ENETUNREACH: 'cannot be reached: no route to the network',
  ETIMEDOUT: 'does not answer; a firewall may drop the packets',
  ECONNRESET: 'closed the connection before it answered',
  EPIPE: 'closed the connection before it answered',
  UND_ERR_SOCKET: 'closed the connection before it answered',
  [LATE]: 'did not accept the connection in time',
}

const UNTRUSTED = /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/
const CERTIFICATE = /^(CERT_|CRL_|INVALID_CA|PATH_LENGTH|ERR_TLS_|HOSTNAME_MISMATCH)/
const NOT_TLS = /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST/

/** The error for what a socket, TLS or the parser of HTTP threw before there was an answer. */
export function linkErrorFrom(error: unknown, route: Route): LinkError {
  if (error instanceof LinkError) return error
  const { code } = systemError(error)
  const where = `the platform ${routeText(route)}`
  if (code === 'HPE' || code === 'UND_ERR_HEADERS_OVERFLOW') {
    const sentence = 'does not answer in HTTP; check that the address and port are the platform’s'
    return new LinkError('NOT_UNDERSTOOD', `${where} ${sentence}`, error)
  }
  return errorOf(error, where, code === 'ETIMEDOUT' ? 'TIMEOUT' : 'UNREACHABLE')
}

/** The error for what TLS or a socket threw; `otherwise` is the code where it is neither TLS nor late. */
function errorOf(error: unknown, where: string, otherwise: LinkErrorCode): LinkError {
  const { code, message } = systemError(error)
  const tls = tlsSentence(code, message)
  if (tls !== undefined) return new LinkError('TLS', `${where} ${tls}`, error)
  const sentence = SOCKET_SENTENCES[code] ?? `cannot be reached: ${firstLine(message)}`
  return new LinkError(code === LATE ? 'TIMEOUT' : otherwise, `${where} ${sentence}`)
}

/** What is wrong with a peer's TLS and what to do, or undefined when the error is of another kind. */
function tlsSentence(code: string, message: string): string | undefined {
  if (UNTRUSTED.test(code)) {
    return (
      `has a certificate that is not trusted (${code}); ` +
      'set NODE_EXTRA_CA_CERTS to the file of its certificate authority'
    )
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `has a certificate for other names: ${firstLine(message)}`
  }
  if (NOT_TLS.test(code) || (code === 'EPROTO' && /wrong version number/.test(message))) {
    return 'does not speak TLS there; check the port, or write http:// where no TLS is meant'
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const when = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet'
    return `has a certificate that ${when}; renew it, or check this machine’s clock`
  }
  if (CERTIFICATE.test(code) || code.startsWith('ERR_SSL_') || code === 'EPROTO') {
    return `failed the TLS handshake: ${firstLine(message)} (${code})`
  }
  return undefined
}

const TUNNEL_SENTENCES: Readonly<Record<string, string>> = {
  PROXY_AUTHENTICATION:
    'rejected the credentials (407); check user and password in HTTPS_PROXY or HTTP_PROXY',
  CONNECT_FAILED: 'cannot reach the platform',
}

/** The error for what went wrong with the proxy itself. */
export function proxyErrorFrom(error: unknown, route: Route): LinkError {
  if (error instanceof LinkError) return error
  const where = `the proxy ${route.proxy} to the platform ${route.platform}`
  if (error instanceof TargetFailure) {
    const { code, message } = error.failure
    const sentence = TUNNEL_SENTENCES[code] ?? 'does not connect'
    const detail = code === 'PROXY_AUTHENTICATION' ? '' : ` (${message})`
    return new LinkError('PROXY', `${where} ${sentence}${detail}`)
  }
  return errorOf(error, where, 'PROXY')
}

function systemError(error: unknown): { code: string; message: string } {
  if (!(error instanceof Error)) return { code: '', message: String(error) }
  // Of AbortSignal.timeout; its code is a number.
  if (error.name === 'TimeoutError') return { code: LATE, message: error.message }
  const { code, name, message } = error as NodeJS.ErrnoException
  // undici gives the errors of its parser no code.
  return { code: code ?? (name === 'HTTPParserError' ? 'HPE' : ''), message }
}

// OpenSSL's messages go on with file and line numbers.
function firstLine(message: string): string {
  return excerpt(message.split('\n')[0] as string, 300)
}
