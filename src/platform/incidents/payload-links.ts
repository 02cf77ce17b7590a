// Addresses under PUBLIC_URL for the payloads of notifications.

/** What links are made from. */
export interface LinkOptions {
  /** Where clients reach the platform; undefined: links are null. */
  publicUrl?: string | undefined
}

/** The address of a path of the public API. */
export function linkTo({ publicUrl }: LinkOptions, path: string): string | null {
  return publicUrl === undefined ? null : `${publicUrl.replace(/\/+$/, '')}${path}`
}
