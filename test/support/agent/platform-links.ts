// Links to fake platforms, closed together with them at the end of the test.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, onTestFinished } from 'vitest'
import { LINK_ERRORS, type LinkErrorCode } from '../../../src/agent/platform/link-error.ts'
import {
  type LinkOptions,
  type LinkRequest,
  PlatformLink,
} from '../../../src/agent/platform/link.ts'
import { FAKE_KEY } from './fake-platform.ts'

/** Closes it at the end of the test. */
export async function opened<T extends { close(): unknown }>(starting: T | Promise<T>): Promise<T> {
  const one = await starting
  onTestFinished(() => void one.close())
  return one
}

/** A link to that platform. */
export function linkTo(platformUrl: string, more: Partial<LinkOptions> = {}): PlatformLink {
  const link = new PlatformLink({ platformUrl, apiKey: FAKE_KEY, ...more })
  onTestFinished(() => link.close())
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

/** The error that a call ends with; its message shows no key. */
export async function failureOf(
  link: PlatformLink,
  more: Partial<LinkRequest> = {},
): Promise<Error & { code: LinkErrorCode }> {
  const error = (await link.request(anAsk(more)).catch((reason: unknown) => reason)) as Error & {
    code: LinkErrorCode
  }
  expect(error.message).not.toContain(FAKE_KEY)
  expect(Object.keys(LINK_ERRORS)).toContain(error.code)
  return error
}
