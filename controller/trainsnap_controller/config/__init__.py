# SPDX-License-Identifier: Apache-2.0
"""What an admin can set, and how the file is read."""

from trainsnap_controller.config.load import ConfigError, load
from trainsnap_controller.config.model import Configuration

__all__ = ["ConfigError", "Configuration", "load"]
