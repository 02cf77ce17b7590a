// Retry strategies in the public wire form, and their waits.
import * as z from 'zod'
import type { Failure, FailureCode } from './failure.ts'
import { LIMITS } from './versions.ts'

const RETRY_TYPES = ['FIXED', 'LINEAR', 'EXPONENTIAL', 'SINGLE_RETRY', 'NO_RETRIES'] as const

/** How often and how fast a failing run is retried. Null and `NO_RETRIES` mean never. */
export const RetryStrategy = z.strictObject({
  type: z.enum(RETRY_TYPES),
  baseBackoffSeconds: z.int().min(0).max(600).default(60),
  maxRetries: z.int().min(1).max(LIMITS.retriesMax).default(2),
  /** Covers the runs themselves too. */
  maxDurationSeconds: z.int().min(0).max(600).default(600),
  sameRegion: z.boolean().default(true),
  onlyOn: z
    .union([z.literal('NETWORK_ERROR'), z.array(z.literal('NETWORK_ERROR'))])
    .nullable()
    .optional(),
})
export type RetryStrategy = z.infer<typeof RetryStrategy>

/** Failures that count as NETWORK_ERROR: the network failed, not the application behind it. */
const NETWORK_FAILURES: ReadonlySet<string> = new Set<FailureCode>([
  'DNS_NOT_FOUND',
  'DNS_NO_ADDRESS',
  'DNS_SERVER_FAILED',
  'RESOLVER_UNREACHABLE',
  'NETWORK_UNREACHABLE',
  'CONNECT_REFUSED',
  'CONNECT_UNREACHABLE',
  'CONNECT_FAILED',
  'CONNECTION_RESET',
  'CONNECTION_CLOSED',
  'HTTP2_GOAWAY',
  'HTTP2_STREAM_RESET',
  'TIMEOUT_DNS',
  'TIMEOUT_CONNECT',
  'TIMEOUT_PROXY',
  'TIMEOUT_STARTTLS',
  'TIMEOUT_TLS',
  'TIMEOUT_SEND',
  'TIMEOUT_FIRST_BYTE',
  'TIMEOUT_DOWNLOAD',
])

/** Attempts so far of a job that may be retried. */
export interface RetryState {
  /** Attempts made, at least 1. */
  attempts: number
  /** Since the first attempt began. */
  elapsedMs: number
  /** Failures of the last attempt. */
  failures: readonly Failure[]
}

/**
 * Milliseconds to wait before the next attempt, or undefined when there must be none. Linear waits
 * base × attempt, exponential base ^ attempt seconds; a wait that would end past
 * `maxDurationSeconds` is not begun.
 */
export function retryWaitMs(
  strategy: RetryStrategy | null | undefined,
  state: RetryState,
): number | undefined {
  if (strategy === null || strategy === undefined || strategy.type === 'NO_RETRIES')
    return undefined
  const retries = strategy.type === 'SINGLE_RETRY' ? 1 : strategy.maxRetries
  if (state.attempts > retries) return undefined
  const networkOnly = strategy.onlyOn?.includes('NETWORK_ERROR') === true
  if (networkOnly && !state.failures.some((one) => NETWORK_FAILURES.has(one.code))) return undefined
  const waitMs = waitSeconds(strategy, state.attempts) * 1000
  return state.elapsedMs + waitMs >= strategy.maxDurationSeconds * 1000 ? undefined : waitMs
}

function waitSeconds(strategy: RetryStrategy, attempt: number): number {
  if (strategy.type === 'LINEAR') return strategy.baseBackoffSeconds * attempt
  if (strategy.type === 'EXPONENTIAL') return strategy.baseBackoffSeconds ** attempt
  return strategy.baseBackoffSeconds
}
