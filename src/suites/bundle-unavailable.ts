// Error for a code bundle of the platform that cannot be had; distinct from bundles that are invalid.

/** The bundle is unavailable; the message says why, and what to do where that is known. */
export class BundleUnavailableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BundleUnavailableError'
  }
}
