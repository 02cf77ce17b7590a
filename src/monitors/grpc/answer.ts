// Evaluation of the answer to a call: its status, from the server or, where the server gave none, by the
// mappings of gRPC's documents; and the problems of a malformed answer.
import { GRPC_FAILURES, type GrpcCode } from './definition.ts'
import type { IncomingHttpHeaders } from 'node:http2'
import { aboutIn, failure, type Failure, FAILURES } from '../../contract/failure.ts'
import { isGrpc, type Answer } from './call.ts'
import { decodedMessage, STATUS, statusOfHttp, statusOfReset } from './status.ts'

/** How a call ended. */
export interface Ending {
  code: number
  /** Percent-decoded; empty when there was none. */
  message: string
  /** Whether the status is the server's, or derived by the client. */
  origin: 'server' | 'client'
  /** Why this is no valid gRPC answer. */
  failed?: Failure
}

/** Determines how a call ended. */
export function endingOf(answer: Answer): Ending {
  const { headers, trailers, failed, cutShort } = answer
  const last = trailers?.['grpc-status'] === undefined ? headers : trailers
  const status = last?.['grpc-status']
  const httpStatus = headers?.[':status'] ?? 0
  if (headers !== undefined && (!isGrpc(headers) || (status === undefined && httpStatus !== 200))) {
    return endingOfHttp(httpStatus, headers)
  }
  if (failed !== undefined) return concluded(failed)
  if (cutShort) return { code: STATUS.OK, message: '', origin: 'client' }
  if (status === undefined) return malformed('the answer ends without a status', STATUS.INTERNAL)
  const text = String(status)
  if (!/^\d{1,9}$/.test(text)) {
    return malformed(`the status of the answer is no number: ${text.slice(0, 50)}`, STATUS.UNKNOWN)
  }
  const message = decodedMessage(String(last?.['grpc-message'] ?? ''))
  return { code: Number(text), message, origin: 'server' }
}

function malformed(message: string, code: number): Ending {
  return {
    code,
    message: '',
    origin: 'client',
    failed: failure<GrpcCode>('GRPC_MALFORMED', message),
  }
}

function endingOfHttp(httpStatus: number, headers: IncomingHttpHeaders): Ending {
  const code = statusOfHttp(httpStatus)
  const contentType = (headers['content-type'] ?? '').slice(0, 100)
  const server = String(headers['server'] ?? '').slice(0, 100)
  const who = server === '' ? '' : ` by ${server}`
  const details = { httpStatus, contentType, server }
  const failed =
    httpStatus === 200
      ? failure<GrpcCode>(
          'GRPC_NOT_SPOKEN',
          `the answer${who} is not gRPC: its content type is ${contentType || 'missing'}`,
          details,
        )
      : failure<GrpcCode>(
          'GRPC_HTTP_STATUS',
          `the answer${who} is the HTTP status ${httpStatus} instead of gRPC`,
          details,
        )
  return { code, message: '', origin: 'client', failed }
}

const ALL_FAILURES = { ...FAILURES, ...GRPC_FAILURES }

const CONCLUDED: Partial<Record<string, number>> = {
  CONNECTION_CLOSED: STATUS.UNAVAILABLE,
  CONNECTION_RESET: STATUS.UNAVAILABLE,
  HTTP2_GOAWAY: STATUS.UNAVAILABLE,
  HTTP2_NOT_SPOKEN: STATUS.UNAVAILABLE,
  GRPC_MALFORMED: STATUS.INTERNAL,
  GRPC_UNDECODABLE: STATUS.INTERNAL,
  GRPC_MESSAGE_TOO_LARGE: STATUS.RESOURCE_EXHAUSTED,
  GRPC_STREAM_TOO_LARGE: STATUS.RESOURCE_EXHAUSTED,
  HTTP_HEADERS_TOO_LARGE: STATUS.INTERNAL,
  HTTP2_PROTOCOL: STATUS.INTERNAL,
}

/**
 * The gRPC status code of a failure of the call or its connection; undefined for a failure of the agent.
 */
export function statusOfFailure(failed: Failure): number | undefined {
  const { code, details } = failed
  if (aboutIn(ALL_FAILURES, failed) === 'agent') return undefined
  if (code.startsWith('TIMEOUT_')) return STATUS.DEADLINE_EXCEEDED
  if (code === 'HTTP2_STREAM_RESET') return statusOfReset(String(details?.['errorCode']))
  if (/^(DNS|CONNECT|TLS)_/.test(code)) return STATUS.UNAVAILABLE
  return CONCLUDED[code]
}

function concluded(failed: Failure): Ending {
  const code = statusOfFailure(failed) ?? STATUS.UNKNOWN
  return { code, message: '', origin: 'client', failed }
}
