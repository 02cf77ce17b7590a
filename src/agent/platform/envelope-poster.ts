// Posts reports of faults in Sentry's protocol: to the platform, or to another receiver. Loaded with the
// first of them. They go the way that everything to the platform goes, through its proxy.
import { VERSION } from '../../contract/versions.ts'
import type { SentryDsn } from '../../process/faults/sentry-dsn.ts'
import {
  ENVELOPE_TYPE,
  envelopeOf,
  type FaultReceiver,
} from '../../process/faults/sentry-envelope.ts'
import { type LinkOptions, PlatformLink } from './link.ts'

/** The way there. */
export type PosterWay = Pick<LinkOptions, 'proxyUrl' | 'noProxy' | 'ca'>

/** Posts to a receiver that a DSN names. */
export function createDsnPoster({ baseUrl, path, key }: SentryDsn, way: PosterWay): FaultReceiver {
  const fields = ['sentry_version=7', `sentry_client=vedette/${VERSION}`, `sentry_key=${key}`]
  return poster({
    link: { ...way, platformUrl: baseUrl, apiKey: undefined },
    path: () => path,
    headers: { 'x-sentry-auth': `Sentry ${fields.join(', ')}` },
  })
}

/** Posts to the platform of an agent; `agentId` may change. */
export function createPlatformPoster(
  to: { platformUrl: string; apiKey: string },
  way: PosterWay,
  agentId: () => string,
): FaultReceiver {
  return poster({
    link: { ...way, ...to },
    path: () => `/agent/v1/api/${agentId()}/envelope/`,
    headers: {},
  })
}

function poster(to: {
  link: LinkOptions
  path: () => string
  headers: Record<string, string>
}): FaultReceiver {
  const link = new PlatformLink(to.link)
  return {
    take: (event, deadlineMs) =>
      link.request({
        method: 'POST',
        path: to.path(),
        headers: { 'content-type': ENVELOPE_TYPE, ...to.headers },
        body: envelopeOf(event, VERSION),
        deadlineMs,
        signal: new AbortController().signal,
      }),
  }
}
