// Bounds of browser and multistep monitors that are no settings.

/** From the request to end until its last file is read: Playwright's grace, and what comes after. */
export const SCRIPT_END_MS_MAX = 12_000
