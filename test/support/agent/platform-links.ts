// Links to fake platforms, closed together with them at the end of the test.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { afterEach, expect } from 'vitest'
import { LINK_ERRORS, type LinkErrorCode } from '../../../src/agent/platform/link-error.ts'
import {
  createPlatformLink,
  type LinkOptions,
  type LinkRequest,
  type PlatformLink,
} from '../../../src/agent/platform/link.ts'

export const KEY = 'pl_0123456789abcdef'

const open: { close(): unknown }[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
})

/** Closes it at the end of the test. */
export async function opened<T extends { close(): unknown }>(starting: T | Promise<T>): Promise<T> {
  const one = await starting
  open.push(one)
  return one
}

/** A link to that platform. */
export function linkTo(platformUrl: string, more: Partial<LinkOptions> = {}): PlatformLink {
  const link = createPlatformLink({ platformUrl, apiKey: KEY, ...more })
  open.unshift(link)
  return link
}

/** A call. */
export function anAsk(more: Partial<LinkRequest> = {}): LinkRequest {
  return {
    method: 'POST',
    path: '/agent/v1/sync',
    body: Buffer.from('{}'),
    deadlineMs: 5000,
    signal: new AbortController().signal,
    ...more,
  }
}

/** Answers `hello`. */
export function hello(_: IncomingMessage, response: ServerResponse): void {
  response.end('hello')
}

/** The code and message of the error that a call ends with; the message shows no key. */
export async function failureOf(
  link: PlatformLink,
  more: Partial<LinkRequest> = {},
): Promise<{ code: LinkErrorCode | undefined; message: string }> {
  const error = await link.request(anAsk(more)).then(
    () => undefined,
    (reason: unknown) => reason as Error & { code: LinkErrorCode },
  )
  expect(error?.message).not.toContain(KEY)
  expect(Object.keys(LINK_ERRORS)).toContain(error?.code)
  return { code: error?.code, message: error?.message ?? '' }
}
