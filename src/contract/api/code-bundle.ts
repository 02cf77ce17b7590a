// Code bundles: projects of check suites as one tar.gz each, known by the SHA-256 of its bytes.
import * as z from 'zod'
import { LIMITS } from '../versions.ts'

/** SHA-256 of a bundle, in lower case hex. */
export const BundleHash = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits in lower case')

const PREFIX = 'bundle:'

/** `codeBundlePath` of a suite for a bundle of the platform. */
export function bundlePath(sha256: string): string {
  return `${PREFIX}${sha256}`
}

/** Whether a `codeBundlePath` names a bundle of the platform, with any hash. */
export function namesBundle(codeBundlePath: string): boolean {
  return codeBundlePath.startsWith(PREFIX)
}

/** The hash that a `codeBundlePath` names; undefined where it names none, or none that can be. */
export function bundleHash(codeBundlePath: string): string | undefined {
  if (!namesBundle(codeBundlePath)) return undefined
  const hash = codeBundlePath.slice(PREFIX.length)
  return BundleHash.safeParse(hash).success ? hash : undefined
}

/** Bounds of bundles; names end with their unit. */
export const BUNDLE_BOUNDS = {
  bytesMax: LIMITS.codeBundleBytesMax,
  bundlesMax: LIMITS.codeBundlesMax,
  /** How long agents may still use the previous bundle of a monitor. */
  formerMsMax: 7_200_000,
  /** Retention of a bundle that no monitor names. */
  unusedMsMax: 7 * 86_400_000,
} as const

/** A stored bundle. */
export const CodeBundle = z
  .object({
    sha256: z.string().meta({ description: 'SHA-256 of its bytes, hex' }),
    bytes: z.int(),
    checks: z.int().meta({ description: 'How many checks name it' }),
    createdAt: z.iso.datetime().meta({ description: 'When it was uploaded', format: 'date-time' }),
  })
  .meta({ id: 'CodeBundle' })
